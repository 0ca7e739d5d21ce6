"""Capital transfers in the database: stored once a key, locked one at a time, moved by the table of moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.domain.capital_transfers import FINAL_TRANSFER_STATES, Attention, TransferState, check_transfer_move
from qtg_dagster.domain.errors import Conflict, NotFound
from qtg_dagster.domain.requests import UNSEEN
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.decision_rows import is_request_id

#: Why a request that met another under its idempotency key cannot say what stands.
UNSEEN_TRANSFER = UNSEEN.replace("a movement", "a capital transfer")
_SERIALIZATION_FAILURE = "40001"
_COLUMNS = """
    t.id::text AS transfer_id, t.network_class, t.transfer_state AS state, t.source, t.destination, t.asset, t.decimals,
    t.base_units, t.reason, t.requested_by, t.idempotency_key, t.wanted_by,
    coalesce(t.wanted_by <= now(), false) AS overdue, t.attempt_no, t.attention_kind, t.attention, t.attention_since,
    t.state_since, t.created_at, t.finished_at
"""
_READ = f"""
    SELECT {_COLUMNS},
           coalesce((SELECT jsonb_agg(jsonb_build_object(
                'attempt_no', a.attempt_no, 'movement_id', a.movement_request_id, 'route', a.route,
                'template_key', a.template_key) ORDER BY a.attempt_no)
            FROM qtg.capital_transfer_attempts a WHERE a.transfer_id = t.id), '[]'::jsonb) AS attempts
    FROM qtg.capital_transfer_requests t
"""  # noqa: S608 - our own constant
_READ_ONE = text(f"{_READ} WHERE t.id = CAST(:transfer_id AS uuid) AND t.network_class = :network_class")
_READ_MANY = text(f"""{_READ}
    WHERE t.network_class = :network_class AND (NOT :open_only OR t.finished_at IS NULL)
    ORDER BY t.created_at DESC, t.id LIMIT :most
""")
# What is decided on is read by a later statement: the one that waited for the lock does not see what was committed
# meanwhile.
_LOCK = """
    SELECT id FROM qtg.capital_transfer_requests
    WHERE id = CAST(:transfer_id AS uuid) AND network_class = :network_class
"""
_LOCK_WAITING = text(f"{_LOCK} FOR NO KEY UPDATE")
_LOCK_FREE = text(f"{_LOCK} AND finished_at IS NULL FOR NO KEY UPDATE SKIP LOCKED")
_OPEN = text("""
    SELECT id::text AS transfer_id, created_at FROM qtg.capital_transfer_requests
    WHERE network_class = :network_class AND finished_at IS NULL
      AND (CAST(:after_time AS timestamptz) IS NULL
           OR (created_at, id) > (CAST(:after_time AS timestamptz), CAST(:after_id AS uuid)))
    ORDER BY created_at, id
    LIMIT :most
""")
_FIND_BY_KEY = text("""
    SELECT id::text AS transfer_id, body_hash FROM qtg.capital_transfer_requests
    WHERE network_class = :network_class AND idempotency_key = :key
""")
_INSERT = text("""
    INSERT INTO qtg.capital_transfer_requests
        (network_class, transfer_state, source, destination, asset, decimals, base_units, reason, requested_by,
         idempotency_key, body_hash, wanted_by)
    VALUES (:network_class, 'REQUESTED', :source, :destination, :asset, :decimals, :base_units, :reason, :requested_by,
            CAST(:idempotency_key AS text), :body_hash, CAST(:wanted_by AS timestamptz))
    ON CONFLICT DO NOTHING
    RETURNING id::text
""")
_IN_THE_FUTURE = text("SELECT CAST(:moment AS timestamptz) > now()")
_MOVE = text("""
    UPDATE qtg.capital_transfer_requests
    SET transfer_state = :state, state_since = now(), attempt_no = attempt_no + :more_attempts,
        attention_kind = CAST(:kind AS text), attention = CAST(:attention AS text),
        attention_since = CASE WHEN CAST(:kind AS text) IS NOT NULL THEN now() END,
        finished_at = CASE WHEN CAST(:finished AS boolean) THEN now() END
    WHERE id = CAST(:transfer_id AS uuid)
""")
# It is shown since the first time, whatever else is said of it meanwhile.
_SHOW = text("""
    UPDATE qtg.capital_transfer_requests
    SET attention_kind = CAST(:kind AS text), attention = CAST(:attention AS text),
        attention_since = CASE WHEN CAST(:kind AS text) IS NOT NULL THEN coalesce(attention_since, now()) END
    WHERE id = CAST(:transfer_id AS uuid)
""")
_ATTEMPT = text("""
    INSERT INTO qtg.capital_transfer_attempts (transfer_id, attempt_no, movement_request_id, route, template_key)
    VALUES (CAST(:transfer_id AS uuid), :attempt_no, CAST(:movement_id AS uuid), :route, :template_key)
""")
_EXPIRED = text("""
    SELECT count(*) FROM qtg.capital_transfer_attempts a
    JOIN qtg.movement_requests r ON r.id = a.movement_request_id
    WHERE a.transfer_id = CAST(:transfer_id AS uuid) AND r.request_state = 'EXPIRED'
""")
_SHOWN = text(f"""
    SELECT {_COLUMNS} FROM qtg.capital_transfer_requests t
    WHERE t.network_class = :network_class AND t.finished_at IS NULL AND t.attention IS NOT NULL
    ORDER BY t.attention_since, t.id LIMIT :most
""")  # noqa: S608 - our own constant


@dataclass(frozen=True, slots=True)
class Attempt:
    """The movement that an attempt of a transfer became."""

    attempt_no: int
    movement_id: str
    route: str
    template_key: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """A capital transfer as it stands."""

    transfer_id: str
    network_class: str
    state: TransferState
    source: str
    destination: str
    asset: str
    decimals: int
    base_units: int
    reason: str
    requested_by: str
    idempotency_key: str | None
    wanted_by: datetime | None
    overdue: bool
    attempt_no: int
    attention_kind: Attention | None
    attention: str | None
    attention_since: datetime | None
    state_since: datetime
    created_at: datetime
    finished_at: datetime | None
    attempts: tuple[Attempt, ...] = ()

    @property
    def movement_id(self) -> str | None:
        """The movement of the present attempt; None when it has none yet."""
        last = self.attempts[-1] if self.attempts else None
        return last.movement_id if last is not None and last.attempt_no == self.attempt_no else None

    @property
    def last_movement_id(self) -> str | None:
        """The newest movement that any attempt became."""
        return self.attempts[-1].movement_id if self.attempts else None

    @property
    def amount(self) -> str:
        return Amount(Asset("units", self.decimals), self.base_units).to_text()

    def __str__(self) -> str:
        """What is to be where, for people."""
        return f"{self.amount} {self.asset} {self.source} -> {self.destination}"


@dataclass(frozen=True, slots=True)
class NewTransfer:
    """A validated capital transfer, ready to be stored."""

    network_class: str
    source: str
    destination: str
    asset: str
    amount: Amount
    reason: str
    requested_by: str
    body_hash: str
    idempotency_key: str | None = None
    wanted_by: datetime | None = None


async def find_transfer_by_key(transaction: Transaction, network_class: str, key: str) -> tuple[str, str] | None:
    """(transfer id, body hash) of the transfer that stands under an idempotency key."""
    row = (await transaction.execute(_FIND_BY_KEY, {"network_class": network_class, "key": key})).one_or_none()
    return None if row is None else (row.transfer_id, row.body_hash)


async def insert_transfer(transaction: Transaction, new: NewTransfer) -> str | None:
    """Store a transfer; None when its idempotency key is taken, also by one that is just being stored.

    Raises `Conflict` in a transaction whose snapshot is too old to see what another has stored under the key.
    """
    bound = {
        "network_class": new.network_class,
        "source": new.source,
        "destination": new.destination,
        "asset": new.asset,
        "decimals": new.amount.asset.decimals,
        "base_units": new.amount.base_units,
        "reason": new.reason,
        "requested_by": new.requested_by,
        "idempotency_key": new.idempotency_key,
        "body_hash": new.body_hash,
        "wanted_by": new.wanted_by,
    }
    try:
        return (await transaction.execute(_INSERT, bound)).scalar_one_or_none()
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _SERIALIZATION_FAILURE:
            raise
        raise Conflict(UNSEEN_TRANSFER) from error


async def is_future(transaction: Transaction, moment: datetime) -> bool:
    """Whether a moment is still to come, by the database's clock."""
    return bool((await transaction.execute(_IN_THE_FUTURE, {"moment": moment})).scalar_one())


async def read_transfer(transaction: Transaction, network_class: str, transfer_id: str) -> Transfer:
    """One transfer; raises `NotFound`."""
    which = {"transfer_id": transfer_id, "network_class": network_class}
    if is_request_id(transfer_id):
        row = (await transaction.execute(_READ_ONE, which)).mappings().one_or_none()
        if row is not None:
            return _transfer(row)
    raise NotFound(f"there is no capital transfer {transfer_id!r} in network class {network_class}")


async def read_transfers(
    transaction: Transaction, network_class: str, *, open_only: bool = False, most: int = 50
) -> list[Transfer]:
    """Transfers, newest first."""
    bound = {"network_class": network_class, "open_only": open_only, "most": most}
    return [_transfer(row) for row in (await transaction.execute(_READ_MANY, bound)).mappings()]


async def lock_transfer(transaction: Transaction, network_class: str, transfer_id: str) -> Transfer:
    """A transfer that nobody else moves until the transaction ends; raises `NotFound`."""
    if is_request_id(transfer_id):
        await transaction.execute(_LOCK_WAITING, {"transfer_id": transfer_id, "network_class": network_class})
    return await read_transfer(transaction, network_class, transfer_id)


async def lock_open_transfer(transaction: Transaction, network_class: str, transfer_id: str) -> Transfer | None:
    """The same without waiting; None for one that another holds, or that has ended."""
    which = {"transfer_id": transfer_id, "network_class": network_class}
    if (await transaction.execute(_LOCK_FREE, which)).first() is None:
        return None
    return await read_transfer(transaction, network_class, transfer_id)


async def open_transfers(
    transaction: Transaction, network_class: str, *, after: tuple[datetime, str] | None, most: int
) -> list[tuple[datetime, str]]:
    """(created at, id) of transfers that have not ended, oldest first, those that come after `after`."""
    time, transfer_id = after or (None, None)
    bound = {"network_class": network_class, "after_time": time, "after_id": transfer_id, "most": most}
    return [(row.created_at, row.transfer_id) for row in await transaction.execute(_OPEN, bound)]


async def move_transfer(
    transaction: Transaction,
    transfer: Transfer,
    state: TransferState,
    *,
    attention: tuple[Attention, str] | None = None,
    new_attempt: bool = False,
) -> None:
    """Move a locked transfer; raises `IllegalMove`. What it was shown for is over, unless it is said again."""
    check_transfer_move(transfer.state, state)
    kind, words = attention or (None, None)
    await transaction.execute(
        _MOVE,
        {
            "transfer_id": transfer.transfer_id,
            "state": state,
            "more_attempts": int(new_attempt),
            "kind": kind,
            "attention": words,
            "finished": state in FINAL_TRANSFER_STATES,
        },
    )


async def show_transfer(transaction: Transaction, transfer: Transfer, attention: tuple[Attention, str] | None) -> None:
    """Say why a locked transfer is shown to people; None = all is well again."""
    kind, words = attention or (None, None)
    bound = {"transfer_id": transfer.transfer_id, "kind": kind, "attention": words}
    await transaction.execute(_SHOW, bound)


async def record_attempt(
    transaction: Transaction, transfer: Transfer, *, movement_id: str, route: str, template_key: str
) -> None:
    """Which movement the present attempt of a locked transfer became.

    Raises `Conflict` when the database knows of an earlier movement that may have moved money, or still may.
    """
    bound = {"transfer_id": transfer.transfer_id, "attempt_no": transfer.attempt_no, "movement_id": movement_id}
    try:
        await transaction.execute(_ATTEMPT, {**bound, "route": route, "template_key": template_key})
    except IntegrityError as refused:
        raise Conflict(str(refused.orig).splitlines()[0]) from refused


async def count_unapproved(transaction: Transaction, transfer_id: str) -> int:
    """How many movements of a transfer nobody approved in time."""
    return int((await transaction.execute(_EXPIRED, {"transfer_id": transfer_id})).scalar_one())


async def transfers_needing_attention(
    transaction: Transaction, network_class: str, *, most: int = 50
) -> Sequence[Transfer]:
    """Transfers that people are shown, longest first, without their attempts: `attention` says why, and of what.

    One is told by (transfer_id, attention_since): what is said of it may be said more exactly later. For qtg_sender.
    """
    rows = (await transaction.execute(_SHOWN, {"network_class": network_class, "most": most})).mappings()
    return [_transfer(row) for row in rows]


def _transfer(row: Any) -> Transfer:
    values = dict(row)
    values["state"] = TransferState(values["state"])
    values["base_units"] = int(values["base_units"])
    if values["attention_kind"] is not None:
        values["attention_kind"] = Attention(values["attention_kind"])
    values["attempts"] = tuple(Attempt(**attempt) for attempt in values.get("attempts", ()))
    return Transfer(**values)
