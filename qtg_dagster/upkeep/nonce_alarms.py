"""Nonces that somebody must do something about, as they are recorded: what the check and the lists tell."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.journal import AttemptOutcome
from qtg_dagster.domain.nonces import ReservationState, Standing, UsedBy
from qtg_dagster.domain.states import NodeState
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.nonce_fillers import fillers_of
from qtg_dagster.store.nonce_records import NonceRecord, open_nonces

_ENDED = frozenset({NodeState.FAILED, NodeState.CANCELLED, NodeState.SKIPPED})
#: Passes of the reaper that may be missed before a nonce that nobody has looked at is told.
_MISSED_PASSES = 3


@dataclass(frozen=True, slots=True)
class NonceAlarm:
    """One nonce, and what to do about it in a line."""

    name: str
    told: str


async def find_alarms(database: Database, settings: Settings) -> list[NonceAlarm]:
    """Dead nonces, fillings that do not get on, and transactions that were mined for nodes that had ended."""
    patience = _MISSED_PASSES * max(60, settings.evm_nonce_reaper_interval_seconds)
    async with database.transaction() as tx:
        found = [(each, _alarm(each, patience)) for each in await open_nonces(tx, settings.network_class)]
        alarms = [NonceAlarm(record.name, told) for record, told in found if told]
        for record, told in found:
            if told is None and record.holder.reservation is ReservationState.FILLING:
                [*_, last] = await fillers_of(tx, record.chain, record.sender, record.nonce)
                alarms.append(NonceAlarm(record.name, f"being filled: {last.told()}; {fill_command(record)} goes on"))
    return sorted(alarms, key=lambda alarm: alarm.name)


def fill_command(record: NonceRecord) -> str:
    return f"`qtg nonce fill {record.chain} {record.sender} {record.nonce} --by NAME --reason TEXT`"


def mined_after_all(record: NonceRecord) -> str | None:
    """What to do about a transaction that was mined for a node that had ended; None when there is nothing."""
    state = record.holder.node_state
    if record.used_by is not UsedBy.ORIGINAL or record.acknowledged_by is not None or state is NodeState.COMPLETED:
        return None
    what = f"{record.used_tx} was mined, signed for {record.node_key} of {record.request_id}, which is {state}"
    if state is NodeState.CANCELLED:
        return f"{what}: the money has moved; deal with it, then `qtg nonce acknowledge {record.name}`"
    return f"{what}: `qtg movement adopt {record.request_id} {record.node_key} {record.used_tx}`"


def _alarm(record: NonceRecord, patience: float) -> str | None:
    mined = mined_after_all(record)
    if mined is not None:
        return mined
    holder = record.holder
    where = f"held by {record.node_key} of {record.request_id}, {holder.node_state}"
    since = f"since {record.reserved_at:%Y-%m-%d %H:%M:%S} UTC"
    if holder.reservation is ReservationState.FILLING:
        return None
    # What was found of it then is past once its node goes on.
    over = holder.node_state in _ENDED or (holder.recorded and holder.outcome is AttemptOutcome.REJECTED)
    if record.standing is Standing.DEAD and over:
        return f"dead, {where} {since}; retry the node where its movement can go on, or {fill_command(record)}"
    gave_up = holder.node_state in _ENDED and (holder.signed or holder.recorded)
    if gave_up and record.standing is None and record.age_seconds > patience:
        return f"signed, {where} {since}, and the reaper has not looked at it; see `qtg nonce list`"
    if gave_up and record.standing is Standing.UNCERTAIN:
        return f"uncertain, {where} {since}: {record.standing_why}; see `qtg nonce list`"
    return None
