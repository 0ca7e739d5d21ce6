"""Nonces that nobody will use: seen, judged, and filled by a transfer of nothing from the sender to itself.

Whatever was signed under a nonce and what fills it share that nonce, so a chain executes one of them. Every step of a
filling is a commit, and starts from what the last one stored: whoever comes again, after a crash or at the same time,
goes on with the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from psycopg.errors import LockNotAvailable
from sqlalchemy.exc import DBAPIError

from qtg_dagster.domain.chains import evm_address
from qtg_dagster.domain.contract import SignedPayload, SigningIntent, SignRequest
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.domain.nonce_chain import (
    FILL_ACTION,
    FILL_FORMAT,
    FeesOffered,
    FillOffer,
    LookFailed,
    NonceChain,
    SignedBefore,
    Use,
)
from qtg_dagster.domain.nonces import (
    OPEN_FILLER_STATES,
    FillerState,
    FillKind,
    ReservationState,
    UsedBy,
    judge,
)
from qtg_dagster.domain.states import NodeState
from qtg_dagster.engine.parts import Engine
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.audit import audit
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.nonce_fillers import (
    Filler,
    acknowledge_original,
    fillers_of,
    finish_nonce,
    lock_movement,
    note,
    order_filler,
    store_signed,
    tell_of_original,
)
from qtg_dagster.store.nonce_records import NonceRecord, effects_of, find_nonce, open_nonces, signed_before
from qtg_dagster.store.nonces import LOCK_SENDER
from qtg_dagster.upkeep.nonce_views import Filling, FillPlan, Judged, permitted

log = structlog.get_logger("qtg.upkeep")

#: Nodes that find out by themselves what became of their transaction.
LOOKED_AT = frozenset({NodeState.SUBMITTING, NodeState.SUBMITTED, NodeState.OBSERVING, NodeState.UNKNOWN})


class NonceDesk:
    """Looks at nonces and fills them, with the signers and the store of an engine."""

    def __init__(self, engine: Engine, chain: NonceChain) -> None:
        self._engine = engine
        self._chain = chain

    async def look(self, chain: str, sender: str, nonce: int) -> Judged:
        """One nonce, judged now. Raises `NotFound` when QTG never reserved it."""
        sender = evm_address(sender, field="sender")
        async with self._engine.database.transaction() as tx:
            record = await find_nonce(tx, self._engine.settings.network_class, chain, sender, nonce)
        if record is None:
            raise NotFound(f"nonce {nonce} of {sender} on {chain} was never reserved here; see `qtg nonce list`")
        return await self.judge(record)

    async def survey(self, *, chain: str | None = None, sender: str | None = None) -> list[Judged]:
        """Every nonce that is held, dead, uncertain or whose use must be told, judged now; in order."""
        network_class = self._engine.settings.network_class
        async with self._engine.database.transaction() as tx:
            records = await open_nonces(tx, network_class, chain=chain, sender=sender)
        return [await self.judge(record) for record in records]

    async def acknowledge(self, chain: str, sender: str, nonce: int, *, actor: str, reason: str) -> None:
        """Say that a transaction which was mined although its node had ended is dealt with; raises `Conflict`."""
        _said(actor=actor, reason=reason)
        network_class = self._engine.settings.network_class
        async with self._engine.database.transaction() as tx:
            record = await find_nonce(tx, network_class, chain, sender, nonce)
            if record is None or not await acknowledge_original(tx, record, actor=actor):
                raise Conflict(f"nonce {nonce} of {sender} on {chain}: there is nothing to acknowledge")
            await audit(
                tx,
                network_class=network_class,
                actor=actor,
                action="acknowledge_nonce",
                subject_id=record.name,
                subject_type="evm_nonce",
                details={"used_tx": record.used_tx, "node_id": record.node_id, "reason": reason},
            )

    async def judge(self, record: NonceRecord) -> Judged:
        """How a recorded nonce stands; a chain that cannot be asked leaves it uncertain, with the reason."""
        async with self._engine.database.transaction() as tx:
            before = await signed_before(tx, record)
            fillers = tuple(await fillers_of(tx, record.chain, record.sender, record.nonce))
        view, problem = None, ""
        try:
            view = await self._chain.view(
                record.chain, record.sender, record.nonce, [signed.tx_hash for signed in before]
            )
        except (LookFailed, NotFound) as error:  # NotFound: the chain is no longer in the inventory
            problem = str(error)
        return Judged(record, view, judge(record.nonce, record.holder, view), fillers, problem)

    async def plan(self, chain: str, sender: str, nonce: int, *, cancel: bool = False) -> FillPlan:
        """What filling would do, without doing it. Raises `Conflict` with the reason when it is not to be filled."""
        judged = await self.look(chain, sender, nonce)
        open_now = [each for each in judged.fillers if each.state in OPEN_FILLER_STATES]
        if open_now:
            return FillPlan(judged, open_now[-1].kind, goes_on=open_now[-1])
        kind = permitted(judged, cancel=cancel)
        offer = await self._offer(judged.record, version=1, earlier=())
        return FillPlan(judged, kind, offer=offer)

    async def fill(
        self, chain: str, sender: str, nonce: int, *, actor: str, reason: str, cancel: bool = False
    ) -> Filling:
        """Fill a nonce, or go on with its filling; asking again is harmless.

        `cancel` also calls off what is under way: a transaction that is stuck at too low a fee. Its node goes on being
        looked at, and ends COMPLETED should its own transaction be mined, FAILED with the filler as proof otherwise.
        Raises `Conflict`, `SigningRefused` or what else stands in the way; once ordered it can be asked for again.
        """
        _said(actor=actor, reason=reason)
        plan = await self.plan(chain, sender, nonce, cancel=cancel)
        filler = plan.goes_on or await self._order(plan.judged, plan.kind, version=1, actor=actor, reason=reason)
        filling = await self._drive(plan.judged.record, filler)
        if filling.outbid:
            filler = await self._order(
                plan.judged, filling.filler.kind, version=filling.filler.version + 1, actor=actor, reason=reason
            )
            filling = await self._drive(plan.judged.record, filler)
        return filling

    async def go_on(self, chain: str, sender: str, nonce: int) -> Filling | None:
        """Take the filling of a nonce a step further; None when there is none under way."""
        network_class = self._engine.settings.network_class
        async with self._engine.database.transaction() as tx:
            record = await find_nonce(tx, network_class, chain, sender, nonce)
            fillers = await fillers_of(tx, chain, sender, nonce)
        open_now = [each for each in fillers if each.state in OPEN_FILLER_STATES]
        if record is None or not open_now:
            return None
        return await self._drive(record, open_now[-1])

    async def settle(self, record: NonceRecord, *, actor: str) -> Use | None:
        """Record who used a nonce for good, when a final block has it; None while that is not so.

        One whose node is in flight is left to its node, which finds out by itself.
        """
        async with self._engine.database.transaction() as tx:
            fillers = await fillers_of(tx, record.chain, record.sender, record.nonce)
            ours = [signed.tx_hash for signed in await signed_before(tx, record)]
            effects = await effects_of(tx, record)
        use = await self._chain.use(
            record.chain,
            record.sender,
            record.nonce,
            fillers=[each.tx_hash for each in fillers if each.tx_hash],
            ours=ours,
            effects=effects,
        )
        if use is not None:
            async with self._engine.database.transaction() as tx:
                await self._finish(tx, record, use, actor)
        return use

    async def _finish(self, tx: Transaction, record: NonceRecord, use: Use, actor: str) -> None:
        await lock_movement(tx, record)
        await tx.execute(LOCK_SENDER, {"chain": record.chain, "sender": record.sender})
        now = await find_nonce(tx, record.network_class, record.chain, record.sender, record.nonce)
        if now is None or now.used_by is not None:
            return
        holder = now.holder
        theirs = holder.node_state in LOOKED_AT or holder.node_state is NodeState.COMPLETED or holder.claimed
        close = holder.reservation is ReservationState.FILLING or not theirs
        if not await finish_nonce(tx, now, use, actor=actor, close=close):
            return
        await audit(
            tx,
            network_class=now.network_class,
            actor=actor,
            action="nonce_used",
            subject_id=now.name,
            subject_type="evm_nonce",
            details={"used_by": use.used_by.value, "node_id": now.node_id, **use.evidence},
        )
        if close and use.used_by is UsedBy.ORIGINAL:
            await tell_of_original(tx, now, use)

    async def _order(self, judged: Judged, kind: FillKind, *, version: int, actor: str, reason: str) -> Filler:
        """Decide it under the sender's lock, on what stands then; whoever comes second gets the first one's order."""
        seen = judged.record
        try:
            async with self._engine.database.transaction() as tx:
                await tx.execute(LOCK_SENDER, {"chain": seen.chain, "sender": seen.sender})
                fillers = await fillers_of(tx, seen.chain, seen.sender, seen.nonce)
                last = fillers[-1] if fillers else None
                if last is not None and (last.version >= version or last.state not in OPEN_FILLER_STATES):
                    return last
                now = await find_nonce(tx, seen.network_class, seen.chain, seen.sender, seen.nonce, lock=True)
                if version == 1 and (now is None or now.holder != seen.holder):
                    raise Conflict(f"nonce {seen.name} has changed hands just now; look again")
                record = now or seen
                await order_filler(tx, record, kind, version=version, actor=actor, reason=reason)
                await audit(
                    tx,
                    network_class=record.network_class,
                    actor=actor,
                    action="fill_nonce",
                    subject_id=record.name,
                    subject_type="evm_nonce",
                    details={
                        "kind": kind.value,
                        "version": version,
                        "reason": reason,
                        "node_id": record.node_id,
                        "node_state": record.holder.node_state.value,
                        "because": judged.found.why,
                    },
                )
                ordered = (await fillers_of(tx, seen.chain, seen.sender, seen.nonce))[-1]
        except DBAPIError as error:
            if isinstance(error.orig, LockNotAvailable):
                raise Conflict(f"nonce {seen.name} or its node is being written to; look again") from None
            raise
        fault_point(FaultPoint.NONCE_FILL_ORDERED)
        return ordered

    async def _drive(self, record: NonceRecord, filler: Filler) -> Filling:
        """Sign what is not signed, see who has used the nonce, and hand the stored bytes over while nobody has."""
        try:
            use = await self.settle(record, actor=filler.ordered_by)
            if use is None and filler.state is FillerState.ORDERED:
                filler = await self._sign(record, filler)
        except Exception as error:
            await self._note(filler, {"problem": f"{type(error).__name__}: {error}"})
            raise
        if use is not None:
            return Filling(await self._stored(filler), use)
        if filler.raw is None or filler.tx_hash is None or filler.fees is None:
            raise Conflict(
                f"nonce {record.name}: what filled it is {filler.state}, and the chain shows no use of it now"
            )
        answer = await self._chain.hand_over(record.chain, filler.raw, filler.tx_hash, filler.fees)
        evidence = {"broadcast": answer.verdict, "node_said": answer.said, "outbid": answer.outbid}
        fault_point(FaultPoint.NONCE_FILL_SENT)
        await self._note(filler, evidence, accepted=answer.verdict == "ACCEPTED")
        use = await self.settle(record, actor=filler.ordered_by)
        return Filling(await self._stored(filler), use)

    async def _sign(self, record: NonceRecord, filler: Filler) -> Filler:
        async with self._engine.database.transaction() as tx:
            earlier = await fillers_of(tx, record.chain, record.sender, record.nonce)
        offer = await self._offer(record, version=filler.version, earlier=earlier)
        signed = await self._signed(record, offer)
        async with self._engine.database.transaction() as tx:
            await store_signed(
                tx,
                filler,
                raw=signed.signed_payload,
                tx_hash=str(signed.provider_refs["tx_hash"]),
                fees=offer.fees,
                signer_key=signed.signer_key,
            )
        fault_point(FaultPoint.NONCE_FILL_PREPARED)
        return await self._stored(filler)

    async def _offer(self, record: NonceRecord, *, version: int, earlier: Sequence[Filler]) -> FillOffer:
        async with self._engine.database.transaction() as tx:
            before: list[SignedBefore] = await signed_before(tx, record)
        over: list[FeesOffered] = [signed.fees for signed in before]
        over += [each.fees for each in earlier if each.fees is not None]
        return await self._chain.offer(
            record.chain, record.sender, record.nonce, node_id=record.node_id, version=version, over=over
        )

    async def _signed(self, record: NonceRecord, offer: FillOffer) -> SignedPayload:
        signer = self._engine.signers.resolve(self._signer_of(record))
        return await signer.sign(
            SignRequest(
                request_id=record.request_id,
                request_node_id=record.node_id,
                signing_intent=SigningIntent(
                    action=FILL_ACTION,
                    asset=offer.native_asset,
                    amount="0",
                    destination=record.sender,
                    allowed_payload_hash=offer.payload_hash,
                ),
                payload_format=FILL_FORMAT,
                payload=offer.payload,
                payload_hash=offer.payload_hash,
                metadata={"chain": record.chain},
            )
        )

    def _signer_of(self, record: NonceRecord) -> str:
        for account in self._engine.inventory.accounts.values():
            if (account.chain, account.address) == (record.chain, record.sender) and account.signer is not None:
                return account.signer
        raise Conflict(f"no account of the inventory has {record.sender} on {record.chain} and a signer; add it")

    async def _note(self, filler: Filler, evidence: dict[str, object], *, accepted: bool = False) -> None:
        async with self._engine.database.transaction() as tx:
            await note(tx, filler, evidence, accepted=accepted)

    async def _stored(self, filler: Filler) -> Filler:
        async with self._engine.database.transaction() as tx:
            fillers = await fillers_of(tx, filler.chain, filler.sender, filler.nonce)
        return next(each for each in fillers if each.id == filler.id)


def _said(**who_and_why: str) -> None:
    for field, value in who_and_why.items():
        if not value.strip():
            raise InvalidInput(field, "is empty", "Say who and why: it goes into the audit trail.")
