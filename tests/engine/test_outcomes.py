"""Intents share commits, outcomes share commits, and nothing that shares one suffers from its company."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import text

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.errors import IllegalMove, StaleClaim
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.progress import Advance
from qtg_dagster.domain.states import NodeState
from qtg_dagster.domain.work import Intent, Move, Work
from qtg_dagster.engine import persist
from qtg_dagster.engine.observe import observe_active_nodes
from tests.engine.desk import Desk
from tests.engine.plans import diamond, node, plan_of, until

ONE = plan_of(node("first"))
PREPARED = PreparedAction.of(action_type="move", payload_format="json", payload='{"amount":"1"}')
SEEN = Move(NodeState.COMPLETED, StepKind.OBSERVED, {"seen": "yes"})
WRITERS = """
    SELECT count(DISTINCT xmin::text) AS commits, count(*) AS rows FROM qtg.movement_node_steps WHERE step_kind = :kind
"""


async def submitted(desk: Desk, movements: int) -> list[Work]:
    """Claimed nodes that wait for a look, each of a movement of its own."""
    for _ in range(movements):
        await desk.begin(ONE)
    assert await desk.dispatch(movements) == movements
    claims = await desk.engine.store.claim_due_observations(desk.runner, movements)
    return await desk.engine.store.load_works(claims)


async def commits(desk: Desk, kind: StepKind) -> tuple[int, int]:
    [row] = await desk.rows(WRITERS, kind=kind)
    return row["commits"], row["rows"]


async def lock_waits(desk: Desk) -> int:
    [row] = await desk.rows(
        "SELECT count(*) AS waiting FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return int(row["waiting"])


async def test_intents_that_come_together_share_a_commit(desk: Desk) -> None:
    await submitted(desk, 8)
    many, rows = await commits(desk, StepKind.INTENT)
    assert rows == 8
    assert many < 8


async def test_an_intent_whose_movement_is_held_keeps_no_other_waiting(desk: Desk) -> None:
    held, *others = [await desk.begin(ONE) for _ in range(4)]
    async with desk.engine.database.transaction() as holder:
        await holder.execute(text("SELECT 1 FROM qtg.movement_requests WHERE id = :id FOR UPDATE"), {"id": held})
        dispatching = asyncio.create_task(desk.dispatch(4))

        async def others_went() -> bool:
            rows = await desk.rows(
                "SELECT request_id::text FROM qtg.movement_request_nodes WHERE node_state = 'SUBMITTED'"
            )
            return {row["request_id"] for row in rows} == set(others) and await lock_waits(desk) == 1

        await until(others_went, "the others are submitted, and the one waits for its movement")
    assert await dispatching == 4
    assert set((await desk.node_states()).values()) == {"SUBMITTED"}


async def test_an_intent_that_cannot_be_written_takes_no_other_down(desk: Desk) -> None:
    for _ in range(3):
        await desk.begin(ONE)
    claims = await desk.engine.store.claim_ready(desk.runner, 3)
    works = await desk.engine.store.load_works(claims)
    intents = [Intent(PREPARED, 1, f"{place:032x}") for place in range(3)]
    intents[1] = replace(intents[1], idempotency_key=intents[0].idempotency_key)
    told = await asyncio.gather(
        *(desk.engine.intents.record(work, intent) for work, intent in zip(works, intents, strict=True)),
        return_exceptions=True,
    )
    assert told[0] is True
    assert isinstance(told[1], psycopg.errors.UniqueViolation)
    assert told[2] is True
    states = await desk.node_states()
    assert [states[work.claim.node_id] for work in works] == ["SUBMITTING", "READY", "SUBMITTING"]


async def test_outcomes_that_come_while_a_commit_is_under_way_share_the_next_one(desk: Desk) -> None:
    works = await submitted(desk, 9)
    async with desk.engine.database.transaction() as holder:
        first = works[0].claim.request_id
        await holder.execute(text("SELECT 1 FROM qtg.movement_requests WHERE id = :id FOR UPDATE"), {"id": first})
        writing = [asyncio.create_task(desk.engine.outcomes.record(work, SEEN)) for work in works[:1]]

        async def first_waits() -> bool:
            return await lock_waits(desk) == 1

        await until(first_waits, "the first outcome waits for its movement")
        writing += [asyncio.create_task(desk.engine.outcomes.record(work, SEEN)) for work in works[1:]]
    await asyncio.gather(*writing)
    assert await commits(desk, StepKind.OBSERVED) == (2, 9)
    assert set((await desk.node_states()).values()) == {"COMPLETED"}


async def test_a_move_that_cannot_be_written_takes_no_other_down(desk: Desk) -> None:
    works = await submitted(desk, 3)
    moves = [SEEN, replace(SEEN, to_state=NodeState.BLOCKED), SEEN]
    told = await asyncio.gather(
        *(desk.engine.outcomes.record(work, move) for work, move in zip(works, moves, strict=True)),
        return_exceptions=True,
    )
    assert [type(each) for each in told][1] is IllegalMove
    states = await desk.node_states()
    assert [states[work.claim.node_id] for work in works] == ["COMPLETED", "SUBMITTED", "COMPLETED"]


async def test_a_fenced_move_takes_no_other_down_and_is_on_record(desk: Desk) -> None:
    works = await submitted(desk, 3)
    lost = replace(works[1], claim=replace(works[1].claim, claim_epoch=works[1].claim.claim_epoch - 1))
    told = await asyncio.gather(
        *(desk.engine.outcomes.record(work, SEEN) for work in (works[0], lost, works[2])), return_exceptions=True
    )
    assert isinstance(told[1], StaleClaim)
    states = await desk.node_states()
    assert [states[work.claim.node_id] for work in works] == ["COMPLETED", "SUBMITTED", "COMPLETED"]
    assert await commits(desk, StepKind.FENCED) == (1, 1)


async def test_two_branches_in_one_queue_release_their_join_once(desk: Desk) -> None:
    await desk.begin(diamond())
    await desk.dispatch()
    await desk.observe()
    assert await desk.dispatch(2) == 2
    assert await observe_active_nodes(desk.engine, desk.runner, 10) == 2
    assert (await desk.states())["bottom"] == "READY"
    readied = [step for step in await desk.steps("bottom") if step["step_kind"] == "readied"]
    assert len(readied) == 1


@pytest.mark.parametrize("attempts", [1, 3])
async def test_an_outcome_outlives_the_connections_it_was_to_be_written_on(desk: Desk, attempts: int) -> None:
    works = await submitted(desk, 4)
    for _ in range(attempts):
        await desk.sql(
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'qtg' AND pid <> pg_backend_pid()"
        )
    await asyncio.gather(*(desk.engine.outcomes.record(work, SEEN) for work in works))
    assert set((await desk.node_states()).values()) == {"COMPLETED"}


async def test_a_store_that_stays_away_is_given_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    [work] = await submitted(desk, 1)
    tries: list[int] = []

    async def away(moves: Sequence[tuple[Work, Move]]) -> list[Advance | StaleClaim]:
        tries.append(len(moves))
        raise TimeoutError("no answer")

    monkeypatch.setattr(persist, "PATIENCE_SECONDS", -1.0)
    recorder: persist.Recorder[Move, Advance] = persist.Recorder(away, desk.engine.store.is_transient, (0.0, 0.0, 0.0))
    with pytest.raises(TimeoutError, match="no answer"):
        await recorder.record(work, SEEN)
    assert tries == [1]
    monkeypatch.setattr(persist, "PATIENCE_SECONDS", 60.0)
    with pytest.raises(TimeoutError, match="no answer"):
        await recorder.record(work, SEEN)
    assert tries == [1] * 5


async def test_what_the_database_refuses_is_not_tried_again(desk: Desk) -> None:
    """A trigger's refusal has the class of errors that also a lost connection has."""
    [work] = await submitted(desk, 1)
    tries: list[int] = []

    async def refusing(moves: Sequence[tuple[Work, Move]]) -> list[Advance | StaleClaim]:
        tries.append(len(moves))
        raise psycopg.errors.ObjectNotInPrerequisiteState("a guard says no")

    recorder: persist.Recorder[Move, Advance] = persist.Recorder(refusing, desk.engine.store.is_transient, (0.0, 0.0))
    with pytest.raises(psycopg.OperationalError, match="a guard says no"):
        await recorder.record(work, SEEN)
    assert tries == [1]
