"""Finding CCIP sends that nobody has seen the end of: closed by the proof that their node has, or shown to people."""

from __future__ import annotations

from qtg_dagster.domain.ccip_sends import SendState, judge
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.audit import audit
from qtg_dagster.store.ccip_sends import DueSend, count_due_sends, lock_due_sends, write_verdict
from qtg_dagster.store.database import Database, Transaction

ACTOR = "ccip_stranded_reaper"
_BATCH = 100


async def reap_stranded_sends(engine: Engine) -> int:
    """Judge sends older than MG_CCIP_SEND_INTENT_MAX_AGE_SECONDS by what is recorded; returns how many moved.

    Says nothing of a node: one that is UNKNOWN stays UNKNOWN, and its own recovery or a person finds out.
    """
    network_class, age = engine.settings.network_class, engine.settings.ccip_send_intent_max_age_seconds
    moved, after = 0, 0
    while True:
        async with engine.database.transaction() as tx:
            batch = await lock_due_sends(tx, network_class, max_age_seconds=age, after=after, batch=_BATCH)
            for send in batch:
                moved += await _judge(tx, network_class, send)
        if len(batch) < _BATCH:
            return moved
        after = batch[-1].id


async def count_old_sends(database: Database, network_class: str, max_age_seconds: float) -> int:
    """Sends that a pass would move, so that a schedule can ask before it starts a run."""
    async with database.transaction() as tx:
        return await count_due_sends(tx, network_class, max_age_seconds=max_age_seconds)


async def _judge(tx: Transaction, network_class: str, send: DueSend) -> bool:
    found = judge(send.known)
    if found is None:
        return False
    await write_verdict(tx, send, found)
    deed = "strand" if found.to_state is SendState.STRANDED else "resolve"
    await audit(
        tx,
        network_class=network_class,
        actor=ACTOR,
        action=f"{deed}_ccip_send",
        subject_id=str(send.id),
        subject_type="ccip_send_intent",
        details={
            "movement_request_id": send.request_id,
            "node_key": send.node_key,
            "was": send.known.state,
            "resolution": found.resolution,
            "evidence_step_id": found.evidence_step_id,
        },
    )
    return True
