"""The reaper's pass: nonces to give back, fillings to go on with, and those that nobody will use."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from qtg_dagster.domain.errors import QtgError
from qtg_dagster.domain.nonce_chain import NonceChain
from qtg_dagster.domain.nonces import ReservationState, Standing
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.domain.states import NodeState
from qtg_dagster.engine.parts import Engine
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.nonce_fillers import open_fillers, write_judgements
from qtg_dagster.store.nonce_records import NonceRecord, open_nonces
from qtg_dagster.store.nonces import NonceLedger
from qtg_dagster.upkeep.nonce_desk import LOOKED_AT, NonceDesk
from qtg_dagster.upkeep.workers import NONCE_REAPER

log = structlog.get_logger("qtg.upkeep")

_BATCH = 100
#: A nonce that was judged is looked at again after so long, unless somebody asks.
LOOK_AGAIN_SECONDS = 300.0


@dataclass(slots=True)
class ReapedNonces:
    """What one pass did and found."""

    released: int = 0
    settled: int = 0
    filled: int = 0
    dead: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def items(self) -> int:
        return self.released + self.settled + self.filled

    def notes(self) -> dict[str, object]:
        return {
            "released": self.released,
            "settled": self.settled,
            "filled": self.filled,
            "dead": self.dead,
            "problems": self.problems,
        }


async def look_after_nonces(engine: Engine, chain: NonceChain) -> ReapedNonces:
    """One pass. What fails for one nonce is noted and keeps no other from being looked at."""
    done = ReapedNonces(released=await reap_stale_nonces(engine))
    desk = NonceDesk(engine, chain)
    async with engine.database.transaction() as tx:
        filling = await open_fillers(tx, engine.settings.network_class)
        suspects = [each for each in await open_nonces(tx, engine.settings.network_class) if _is_suspect(each)]
    for key in filling:
        await _go_on(engine, desk, key, done)
    for record in suspects:
        if (record.chain, record.sender, record.nonce) not in filling:
            await _look(engine, desk, record, done)
    return done


async def reap_stale_nonces(engine: Engine) -> int:
    """Release every reservation that is older than MG_EVM_NONCE_RESERVATION_MAX_AGE_SECONDS and provably unused."""
    ledger = NonceLedger(engine.database)
    released = 0
    while True:
        batch = await ledger.reap(max_age_seconds=engine.settings.evm_nonce_reservation_max_age_seconds, batch=_BATCH)
        released += batch
        if batch < _BATCH:
            return released


async def count_due_nonces(database: Database, settings: Settings) -> tuple[int, int]:
    """(reservations to give back, nonces to look at): indexes answer, so a schedule can ask before it starts a run."""
    unused = await NonceLedger(database).count_unused(max_age_seconds=settings.evm_nonce_reservation_max_age_seconds)
    async with database.transaction() as tx:
        filling = await open_fillers(tx, settings.network_class)
        suspects = [each for each in await open_nonces(tx, settings.network_class) if _is_suspect(each)]
    return unused, len(filling) + len(suspects)


def _is_suspect(record: NonceRecord) -> bool:
    """Signed, and its node does not look after it: whether anybody will use it is for its chain to say."""
    holder = record.holder
    fresh = record.judged_seconds_ago is not None and record.judged_seconds_ago < LOOK_AGAIN_SECONDS
    return (
        (holder.signed or holder.recorded)
        and record.used_by is None
        and not holder.claimed
        and holder.node_state not in LOOKED_AT | {NodeState.COMPLETED}
        and holder.reservation is not ReservationState.FILLING
        and not fresh
    )


async def _go_on(engine: Engine, desk: NonceDesk, key: tuple[str, str, int], done: ReapedNonces) -> None:
    try:
        filling = await desk.go_on(*key)
        if filling is not None and filling.outbid and engine.settings.evm_nonce_fill_enabled:
            filling = await desk.fill(*key, actor=NONCE_REAPER, reason="outbid; MG_EVM_NONCE_FILL_ENABLED")
    except QtgError as error:
        _problem(done, " ".join(map(str, key)), error)
        return
    done.settled += filling is not None and filling.use is not None


async def _look(engine: Engine, desk: NonceDesk, record: NonceRecord, done: ReapedNonces) -> None:
    judged = await desk.judge(record)
    found = judged.found
    why = f"{found.why} ({judged.problem})" if judged.problem else found.why
    async with engine.database.transaction() as tx:
        await write_judgements(tx, [(record, found.standing.value, redact_text(why))])
    try:
        if found.standing is Standing.USED:
            done.settled += await desk.settle(record, actor=NONCE_REAPER) is not None
        elif found.standing is Standing.DEAD:
            await _dead(engine, desk, record, done)
    except QtgError as error:
        _problem(done, record.name, error)


async def _dead(engine: Engine, desk: NonceDesk, record: NonceRecord, done: ReapedNonces) -> None:
    settings = engine.settings
    if not settings.evm_nonce_fill_enabled or record.age_seconds < settings.evm_nonce_reservation_max_age_seconds:
        done.dead.append(record.name)
        return
    reason = f"dead and older than {settings.evm_nonce_reservation_max_age_seconds} s; MG_EVM_NONCE_FILL_ENABLED"
    await desk.fill(record.chain, record.sender, record.nonce, actor=NONCE_REAPER, reason=reason)
    done.filled += 1


def _problem(done: ReapedNonces, name: str, error: QtgError) -> None:
    said = redact_text(f"{name}: {error}")
    log.warning("nonce not settled", problem=said)
    done.problems.append(said)
