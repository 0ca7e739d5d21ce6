"""The one call: written ahead, made once, and whatever it answers is recorded as what it proves."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.domain.errors import Conflict, QtgError
from qtg_dagster.engine.context import idempotency_key
from qtg_dagster.engine.requests import cancel_movement
from tests.engine.desk import Desk
from tests.engine.plans import chain, node, plan_of
from tests.engine.provider import ScriptedExecutor, answer

S = ResultStatus


async def test_the_intent_is_durable_before_the_provider_hears_of_it(desk: Desk) -> None:
    await desk.begin(chain())
    seen: list[dict[str, Any]] = []

    async def look() -> None:
        seen.append(await desk.node())
        seen.extend(await desk.rows("SELECT * FROM qtg.movement_node_attempts"))

    desk.provider.during("submit", "first", look)
    await desk.dispatch()
    row, attempt = seen
    assert (row["node_state"], row["attempt_no"]) == ("SUBMITTING", 1)
    assert row["runner_id"] == desk.runner.runner_id
    assert attempt["idempotency_key"] == idempotency_key(str(row["id"]), 1) == desk.provider.book[0]
    assert attempt["outcome"] is None
    assert attempt["prepared"]["payload_hash"] == attempt["payload_hash"]


async def test_no_connection_is_held_while_the_provider_is_called(desk: Desk) -> None:
    await desk.begin(chain())

    async def look() -> None:
        assert desk.engine.database._engine.pool.checkedout() == 0  # type: ignore[attr-defined]

    for method in ("preflight", "prepare", "submit"):
        desk.provider.during(method, "first", look)
    await desk.dispatch()
    desk.provider.during("observe", "first", look)
    await desk.observe()
    assert (await desk.node())["node_state"] == "COMPLETED"


class _Keeper(ScriptedExecutor):
    """Keeps something of its own in the database."""

    uses_session = True
    found: list[str]

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: object = None
    ) -> ExecutionResult:
        assert isinstance(session, AsyncSession)
        state = text("SELECT node_state FROM qtg.movement_request_nodes WHERE id = CAST(:id AS uuid)")
        self.found = [str(await session.scalar(state, {"id": context.request_node_id}))]
        await session.rollback()
        return await super().submit(context, prepared, session)


async def test_an_executor_that_asks_for_a_session_is_given_one(desk: Desk) -> None:
    keeper = _Keeper(desk.provider)
    desk.engine.executors.register("exec.local.keeper", keeper)
    await desk.begin(plan_of(node("first", executor="exec.local.keeper")))
    await desk.dispatch()
    assert keeper.found == ["SUBMITTING"]
    assert (await desk.node())["node_state"] == "SUBMITTED"


@pytest.mark.parametrize(
    ("status", "state", "outcome"),
    [
        (S.NOT_SENT, "READY", "NOT_SENT"),
        (S.REJECTED, "FAILED", "REJECTED"),
        (S.ACCEPTED, "SUBMITTED", "ACCEPTED"),
        (S.COMPLETED, "COMPLETED", "COMPLETED"),
        (S.UNKNOWN, "UNKNOWN", "UNKNOWN"),
        (S.OBSERVING, "UNKNOWN", "UNKNOWN"),
        (S.FAILED, "UNKNOWN", "UNKNOWN"),
    ],
)
async def test_each_answer_leads_to_what_it_proves(desk: Desk, status: ResultStatus, state: str, outcome: str) -> None:
    await desk.begin(chain())
    desk.will("submit", "first", status)
    await desk.dispatch()
    row = await desk.node()
    assert row["node_state"] == state
    [attempt] = await desk.rows("SELECT * FROM qtg.movement_node_attempts")
    assert attempt["outcome"] == outcome
    [step] = [step for step in await desk.steps() if step["id"] == attempt["outcome_step_id"]]
    assert (step["step_kind"], step["from_state"], step["to_state"]) == ("outcome", "SUBMITTING", state)
    assert desk.provider.count("submit", "first") == 1


@pytest.mark.parametrize("status", [S.NOT_SENT, S.REJECTED, S.COMPLETED])
async def test_a_claim_without_evidence_is_no_claim(desk: Desk, status: ResultStatus) -> None:
    await desk.begin(chain())
    desk.will("submit", "first", ExecutionResult(status=status, provider_refs={"id": "w1"}))
    await desk.dispatch()
    row = await desk.node()
    assert (row["node_state"], row["error_code"]) == ("UNKNOWN", "CONTRACT_VIOLATION")
    assert row["provider_refs"]["id"] == "w1"  # what may help to find it is kept


@pytest.mark.parametrize(
    "value", [Decimal("0.1"), math.nan, math.inf, b"x", "a\x00b", "half \ud83d", {1, 2}, {"deep": [Decimal(1)]}]
)
@pytest.mark.parametrize("where", ["provider_refs", "artifacts", "evidence"])
async def test_an_answer_that_cannot_be_stored_does_not_get_lost(desk: Desk, where: str, value: Any) -> None:
    await desk.begin(chain())
    desk.will("submit", "first", answer(S.ACCEPTED, **{where: {"fee": value}}))
    await desk.dispatch()
    row = await desk.node()
    if where == "evidence":
        assert row["node_state"] == "SUBMITTED"  # evidence is text about the thing, never the thing
    else:
        assert (row["node_state"], row["error_code"]) == ("UNKNOWN", "CONTRACT_VIOLATION")


@pytest.mark.parametrize(
    "error",
    [TimeoutError("lost"), ValueError("bad code"), QtgError("ours"), Exception("x" * 10_000), OSError(104, "reset")],
)
async def test_whatever_submit_raises_leaves_the_node_uncertain(desk: Desk, error: Exception) -> None:
    await desk.begin(chain())
    desk.will("submit", "first", error)
    await desk.dispatch()
    row = await desk.node()
    assert (row["node_state"], row["error_code"]) == ("UNKNOWN", "SUBMIT_RAISED")
    assert await desk.dispatch() == 0
    assert len(desk.provider.book) == 1


async def test_secrets_in_an_answer_reach_no_row(desk: Desk) -> None:
    await desk.begin(chain(), callback_url="https://desk.example/")
    desk.will("submit", "first", TimeoutError("POST /withdraw?signature=cAnArY failed; X-MBX-APIKEY: cAnArY"))
    await desk.dispatch()
    for table in (
        "movement_request_nodes",
        "movement_node_steps",
        "movement_node_attempts",
        "movement_callback_outbox",
    ):
        [row] = await desk.rows(f"SELECT coalesce(jsonb_agg(t)::text, '') AS all FROM qtg.{table} t")  # noqa: S608
        assert "cAnArY" not in row["all"]


async def test_what_never_left_is_sent_again_as_another_attempt(desk: Desk) -> None:
    await desk.begin(chain())
    desk.will("submit", "first", S.NOT_SENT, S.NOT_SENT)
    for attempt in (1, 2):
        assert await desk.dispatch() == 1
        row = await desk.node()
        assert (row["node_state"], row["attempt_no"]) == ("READY", attempt)
        assert row["due_in"] > 0
        await desk.make_due()
    assert await desk.dispatch() == 1
    keys = await desk.rows("SELECT idempotency_key FROM qtg.movement_node_attempts ORDER BY attempt_no")
    assert len({row["idempotency_key"] for row in keys}) == 3
    assert desk.provider.book == [keys[2]["idempotency_key"]]


async def test_an_action_that_expires_between_intent_and_submit_is_not_sent(desk: Desk) -> None:
    await desk.begin(chain())
    clock = [datetime.now(UTC)]

    class Later:
        def now(self) -> datetime:
            clock.append(clock[-1] + timedelta(seconds=60))
            return clock[-1]

    object.__setattr__(desk.engine, "clock", Later())
    desk.provider.expires_at = [clock[0] + timedelta(seconds=90)]
    await desk.dispatch()
    row = await desk.node()
    assert (row["node_state"], row["error_code"], row["attempt_no"]) == ("READY", "PREPARED_EXPIRED", 1)
    assert desk.provider.book == []
    await desk.make_due()
    await desk.dispatch()
    assert len(desk.provider.book) == 1


async def test_a_cancel_during_the_submit_is_refused_and_the_outcome_stands(desk: Desk) -> None:
    request_id = await desk.begin(chain())

    async def cancel() -> None:
        with pytest.raises(Conflict, match="first SUBMITTING"):
            await cancel_movement(desk.engine, request_id, actor="grace", reason="stop")

    desk.provider.during("submit", "first", cancel)
    await desk.dispatch()
    assert await desk.states() == {"first": "SUBMITTED", "watch": "BLOCKED", "last": "BLOCKED"}
    assert await desk.request_state() == "EXECUTING"


async def test_a_hint_after_acceptance_sets_the_first_look_within_bounds(desk: Desk) -> None:
    await desk.begin(plan_of(node("first"), node("second")))
    desk.will("submit", "first", answer(S.ACCEPTED, retry_after_seconds=30))
    desk.will("submit", "second", answer(S.UNKNOWN, retry_after_seconds=1e300))
    await desk.dispatch(2)
    assert 0 < (await desk.node("first"))["due_in"] <= 30
    assert 500 < (await desk.node("second"))["due_in"] <= 600


async def test_one_at_a_time_per_key_and_the_key_is_held_while_uncertain(desk: Desk) -> None:
    await desk.begin(plan_of(node("first", executor="exec.local.keyed"), node("second", executor="exec.local.keyed")))
    desk.will("submit", "first", TimeoutError("lost"))
    desk.will("submit", "second", TimeoutError("lost"))
    assert await desk.dispatch(5) == 1
    assert await desk.dispatch(5) == 0
    [uncertain] = [key for key, state in (await desk.states()).items() if state == "UNKNOWN"]
    assert await desk.recover() == 1
    assert (await desk.node(uncertain))["node_state"] == "SUBMITTED"
    assert await desk.dispatch(5) == 1
    assert len(desk.provider.book) == 2
