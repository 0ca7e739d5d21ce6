"""What each signer has signed: one effect for a nonce, one for a node's attempt, for ever; and what fills a nonce."""

from __future__ import annotations

from sqlalchemy import text

from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.store.database import Database

_RECORD = text("""
    INSERT INTO qtg.signer_journal (chain, sender, nonce, request_node_id, role, effect_hash)
    VALUES (:chain, :sender, :nonce, CAST(:request_node_id AS uuid), :role, :effect_hash)
    ON CONFLICT DO NOTHING
""")
_OTHER_EFFECT = text("""
    SELECT nonce, request_node_id::text AS request_node_id, role
    FROM qtg.signer_journal
    WHERE ((chain = :chain AND sender = :sender AND nonce = :nonce)
           OR (request_node_id = CAST(:request_node_id AS uuid) AND role = :role))
      AND effect_hash <> :effect_hash
    LIMIT 1
""")
_RECORD_FILL = text("""
    INSERT INTO qtg.signer_journal (chain, sender, nonce, request_node_id, role, effect_hash, purpose)
    SELECT :chain, :sender, :nonce, CAST(:request_node_id AS uuid), :role, :effect_hash, 'fill'
    WHERE EXISTS (SELECT 1 FROM qtg.signer_journal
                  WHERE chain = :chain AND sender = :sender AND nonce = :nonce AND purpose = 'effect')
    ON CONFLICT DO NOTHING
""")
_FILL = text("""
    SELECT effect_hash FROM qtg.signer_journal
    WHERE chain = :chain AND sender = :sender AND nonce = :nonce AND purpose = 'fill'
""")
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended('signer:' || :sender || ':' || :asset, 515447))")
_SPEND = text("""
    INSERT INTO qtg.signer_spends (chain, sender, nonce, asset, units)
    VALUES (:chain, :sender, :nonce, :asset, :units)
    ON CONFLICT DO NOTHING
""")
_SPENT_TODAY = text("""
    SELECT coalesce(sum(units), 0) AS units
    FROM qtg.signer_spends
    WHERE sender = :sender AND asset = :asset AND (spent_at AT TIME ZONE 'UTC')::date = (now() AT TIME ZONE 'UTC')::date
""")


class SignerJournal:
    """The signer's own memory in PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(
        self, *, chain: str, sender: str, nonce: int, request_node_id: str, role: str, effect_hash: str
    ) -> None:
        """Remember this signature before it is made; the same effect again is fine.

        Raises `SigningRefused` when this nonce, or this role of this node, has signed any other effect.
        """
        entry = {
            "chain": chain,
            "sender": sender.lower(),
            "nonce": nonce,
            "request_node_id": request_node_id,
            "role": role,
            "effect_hash": effect_hash,
        }
        async with self._database.transaction() as transaction:
            await transaction.execute(_RECORD, entry)
            other = (await transaction.execute(_OTHER_EFFECT, entry)).one_or_none()
        if other is not None:
            raise SigningRefused(
                f"nonce {nonce} of {sender} on {chain}, or {role} of node {request_node_id}, has already signed "
                f"another effect (nonce {other.nonce}, node {other.request_node_id}, {other.role})"
            )

    async def record_fill(
        self, *, chain: str, sender: str, nonce: int, request_node_id: str, role: str, effect_hash: str
    ) -> None:
        """Remember that what fills this nonce is signed, beside the effect under it; the same again is fine.

        Raises `SigningRefused` when no effect is on record under the nonce, or when the role of the node is taken.
        """
        entry = {
            "chain": chain,
            "sender": sender.lower(),
            "nonce": nonce,
            "request_node_id": request_node_id,
            "role": role,
            "effect_hash": effect_hash,
        }
        async with self._database.transaction() as transaction:
            await transaction.execute(_RECORD_FILL, entry)
            # A statement of its own: what another signing of the same put there meanwhile is seen by it.
            recorded = (await transaction.execute(_FILL, entry)).scalar_one_or_none()
        if recorded != effect_hash:
            raise SigningRefused(
                f"nonce {nonce} of {sender} on {chain}: this signer has signed nothing under it, so there is nothing "
                f"to fill; or {role} of node {request_node_id} has filled another nonce"
            )

    async def spend(
        self, *, chain: str, sender: str, nonce: int, asset: str, units: int, daily_units: int, at_most: str
    ) -> None:
        """Remember so much of the day's limit as spent; the same nonce again spends nothing more.

        Raises `SigningRefused`, with nothing spent, when it would be more than `daily_units` base units today.
        """
        bound = {"sender": sender.lower(), "asset": asset}
        async with self._database.transaction() as transaction:
            await transaction.execute(_ONE_AT_A_TIME, bound)
            await transaction.execute(_SPEND, {**bound, "chain": chain, "nonce": nonce, "units": units})
            spent = (await transaction.execute(_SPENT_TODAY, bound)).scalar_one()
            if spent > daily_units:
                raise SigningRefused(f"policy.daily.{asset}: no more than {at_most} is signed for in one day (UTC)")
