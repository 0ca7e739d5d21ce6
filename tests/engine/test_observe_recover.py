"""Looking at what was sent: cadence, errors, timeouts, and the slow way out of uncertainty."""

from __future__ import annotations

import pytest

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.domain.work import Intent
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.observe import observe_node
from qtg_dagster.engine.recover import claim_unknown_nodes, recover_node
from tests.engine.desk import Desk
from tests.engine.plans import chain, node, plan_of
from tests.engine.provider import ScriptedExecutor, answer

S = ResultStatus


async def submitted(desk: Desk, **first: object) -> None:
    """A movement whose first node the provider has accepted."""
    await desk.begin(plan_of(node("first", **first), node("last"), edges=(("first", "last"),)))
    await desk.dispatch()


async def uncertain(desk: Desk) -> None:
    """A movement whose first node's answer was lost."""
    await desk.begin(plan_of(node("first"), node("last"), edges=(("first", "last"),)))
    desk.will("submit", "first", TimeoutError("lost"))
    await desk.dispatch()


@pytest.mark.parametrize(
    ("action_type", "seconds"), [("ccip_delivery", 60), ("cex_withdrawal_status", 5), ("other", 10)]
)
async def test_the_next_look_is_the_action_types(desk: Desk, action_type: str, seconds: float) -> None:
    await submitted(desk, action_type=action_type)
    desk.will("observe", "first", S.OBSERVING)
    assert await desk.observe() == 1
    row = await desk.node()
    assert row["node_state"] == "OBSERVING"
    assert seconds - 5 < row["due_in"] <= seconds
    assert await desk.observe() == 0


@pytest.mark.parametrize(("hint", "seconds"), [(0, 0), (42, 42), (601, 600), (1e300, 600), (float("inf"), 600)])
async def test_a_hint_takes_precedence_within_its_bounds(desk: Desk, hint: float, seconds: float) -> None:
    await submitted(desk)
    desk.will("observe", "first", answer(S.OBSERVING, retry_after_seconds=hint))
    await desk.observe()
    assert seconds - 5 < (await desk.node())["due_in"] <= seconds


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (S.ACCEPTED, "SUBMITTED"),
        (S.OBSERVING, "OBSERVING"),
        (S.COMPLETED, "COMPLETED"),
        (S.FAILED, "FAILED"),
        (S.UNKNOWN, "UNKNOWN"),
        (S.NOT_SENT, "OBSERVING"),
        (S.REJECTED, "OBSERVING"),
    ],
)
async def test_each_look_leads_to_what_it_proves(desk: Desk, status: ResultStatus, state: str) -> None:
    await submitted(desk)
    desk.will("observe", "first", answer(S.OBSERVING, retry_after_seconds=0), status)
    await desk.observe()
    await desk.observe()
    row = await desk.node()
    assert row["node_state"] == state
    assert row["error_code"] == ("CONTRACT_VIOLATION" if status in (S.NOT_SENT, S.REJECTED) else None)


@pytest.mark.parametrize("status", [S.COMPLETED, S.FAILED])
async def test_an_end_without_evidence_is_no_end(desk: Desk, status: ResultStatus) -> None:
    await submitted(desk)
    desk.will("observe", "first", ExecutionResult(status=status))
    await desk.observe()
    assert (await desk.node())["node_state"] == "SUBMITTED"
    assert (await desk.steps())[-1]["to_state"] is None
    assert await desk.observe() == 0
    await desk.make_due()
    await desk.observe()
    assert (await desk.node())["node_state"] == "COMPLETED"


async def test_a_receipt_that_was_reorganised_away_is_looked_for_again(desk: Desk) -> None:
    await submitted(desk)
    desk.will("observe", "first", answer(S.OBSERVING, retry_after_seconds=0), answer(S.ACCEPTED, retry_after_seconds=0))
    await desk.observe()
    await desk.observe()
    assert (await desk.node())["node_state"] == "SUBMITTED"
    await desk.observe()
    assert (await desk.node())["node_state"] == "COMPLETED"


async def test_errors_back_off_and_never_fail_a_node(desk: Desk) -> None:
    await submitted(desk)
    delays = []
    for _ in range(9):
        desk.will("observe", "first", OSError("api_key=hunter2"))
        await desk.observe()
        row = await desk.node()
        assert (row["node_state"], row["error_code"]) == ("SUBMITTED", "LOOK_FAILED")
        delays.append(round(row["due_in"], -1))
        await desk.make_due()
    assert delays == sorted(delays)
    assert delays[:3] == [10, 20, 40]
    assert delays[-1] == 600
    assert "hunter2" not in str(await desk.steps())
    await desk.observe()
    assert (await desk.node())["error_code"] is None


async def test_one_error_after_many_good_looks_costs_one_interval(desk: Desk) -> None:
    await submitted(desk)
    for _ in range(8):
        desk.will("observe", "first", answer(S.OBSERVING, retry_after_seconds=0))
        await desk.observe()
    desk.will("observe", "first", OSError("reset"))
    await desk.observe()
    assert (await desk.node())["due_in"] <= 10


async def test_looks_that_see_the_same_leave_one_line(desk: Desk) -> None:
    await submitted(desk)
    for confirmations in (1, 1, 1, 2, 2):
        seen = answer(S.OBSERVING, retry_after_seconds=0, evidence={"confirmations": confirmations})
        desk.will("observe", "first", seen)
        await desk.observe()
    observed = [step["facts"]["evidence"] for step in await desk.steps() if step["step_kind"] == "observed"]
    assert observed == [{"confirmations": 1}, {"confirmations": 2}]


async def test_one_slow_or_failing_node_does_not_hold_the_others(desk: Desk) -> None:
    await desk.begin(plan_of(node("first"), node("second")))
    await desk.dispatch(2)
    desk.will("observe", "first", OSError("down"))
    assert await desk.observe() == 2
    assert await desk.states() == {"first": "SUBMITTED", "second": "COMPLETED"}


async def overdue(desk: Desk, seconds: int = 3600) -> None:
    await desk.sql("UPDATE qtg.movement_node_attempts SET intended_at = now() - make_interval(secs => :s)", s=seconds)


TIMED: dict[str, object] = {"timeout_policy": {"observe_seconds": 1800}}


async def test_a_timeout_is_not_enforced_unless_asked_for(desk: Desk) -> None:
    await submitted(desk, **TIMED)
    await overdue(desk)
    desk.will("observe", "first", S.OBSERVING)
    await desk.observe()
    assert (await desk.node())["node_state"] == "OBSERVING"


async def test_an_enforced_timeout_asks_nobody_and_never_says_failed(desk: Desk) -> None:
    desk.under(observe_timeout_enforcement_enabled=True)
    await submitted(desk, **TIMED)
    await overdue(desk)
    await desk.observe()
    row = await desk.node()
    assert (row["node_state"], row["error_code"]) == ("UNKNOWN", "OBSERVATION_TIMEOUT")
    assert desk.provider.count("observe", "first") == 0
    assert await desk.request_state() == "EXECUTING"
    assert await desk.recover() == 0, "it is recovered at recovery's own pace, not in a circle with observation"
    await desk.make_due()
    assert await desk.recover() == 1
    assert (await desk.node())["node_state"] == "SUBMITTED"


async def test_a_timeout_is_seen_only_when_the_look_is_due(desk: Desk) -> None:
    desk.under(observe_timeout_enforcement_enabled=True)
    await submitted(desk, **TIMED)
    desk.will("observe", "first", S.OBSERVING)
    await desk.observe()
    await overdue(desk)
    assert await desk.observe() == 0
    assert (await desk.node())["node_state"] == "OBSERVING"
    await desk.make_due()
    await desk.observe()
    assert (await desk.node())["error_code"] == "OBSERVATION_TIMEOUT"


async def test_what_recovery_finds_accepted_has_its_whole_time_again(desk: Desk) -> None:
    desk.under(observe_timeout_enforcement_enabled=True)
    await submitted(desk, **TIMED)
    await overdue(desk)
    await desk.observe()
    await desk.make_due()
    await desk.recover()
    desk.will("observe", "first", S.OBSERVING)
    await desk.observe()
    row = await desk.node()
    assert (row["node_state"], row["error_code"]) == ("OBSERVING", None)


async def test_within_its_time_and_without_a_limit_a_node_is_observed(desk: Desk) -> None:
    desk.under(observe_timeout_enforcement_enabled=True)
    await desk.begin(plan_of(node("first", **TIMED), node("second")))
    await desk.dispatch(2)
    await overdue(desk, 1700)
    await desk.observe()
    assert set((await desk.states()).values()) == {"COMPLETED"}


async def test_a_timeout_after_an_effect_calls_for_a_person(desk: Desk) -> None:
    desk.under(observe_timeout_enforcement_enabled=True)
    await desk.begin(
        plan_of(node("first"), node("last", **TIMED), edges=(("first", "last"),)), callback_url="https://desk.example/"
    )
    await desk.dispatch()
    await desk.observe()
    await desk.dispatch()
    await overdue(desk)
    await desk.observe()
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    [told] = [row for row in await desk.callbacks() if row["event_type"] == "request_attention"]
    assert told["payload"]["error_code"] == "OBSERVATION_TIMEOUT"
    assert told["payload"]["allowed_actions"] == ["resume"]
    await desk.make_due()
    assert await desk.recover() == 0


async def test_a_look_that_lost_its_claim_changes_nothing_but_is_on_record(desk: Desk) -> None:
    await submitted(desk)
    [claim] = await desk.engine.store.claim_due_observations(desk.runner, 1)
    desk.provider.during(
        "observe", "first", lambda: desk.sql("UPDATE qtg.movement_request_nodes SET claim_epoch = claim_epoch + 1")
    )
    await observe_node(desk.engine, (await desk.engine.store.load_works([claim]))[0])
    assert (await desk.node())["node_state"] == "SUBMITTED"
    assert (await desk.steps())[-1]["step_kind"] == "fenced"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (S.ACCEPTED, "SUBMITTED"),
        (S.OBSERVING, "SUBMITTED"),
        (S.COMPLETED, "COMPLETED"),
        (S.FAILED, "FAILED"),
        (S.UNKNOWN, "UNKNOWN"),
        (S.REJECTED, "UNKNOWN"),
        (S.NOT_SENT, "UNKNOWN"),
    ],
)
async def test_recovery_believes_proof_and_nothing_else(desk: Desk, status: ResultStatus, state: str) -> None:
    await uncertain(desk)
    desk.will("recover", "first", status)
    assert await desk.recover() == 1
    row = await desk.node()
    assert row["node_state"] == state
    assert desk.provider.count("submit", "first") == 1
    if state == "UNKNOWN":
        assert 50 < row["due_in"] <= 60
        assert await desk.recover() == 0


@pytest.mark.parametrize("status", [S.COMPLETED, S.FAILED])
async def test_recovery_without_evidence_proves_nothing(desk: Desk, status: ResultStatus) -> None:
    await uncertain(desk)
    desk.will("recover", "first", ExecutionResult(status=status))
    await desk.recover()
    assert (await desk.node())["node_state"] == "UNKNOWN"


async def test_an_error_in_recovery_leaves_the_node_uncertain_for_another_time(desk: Desk) -> None:
    await uncertain(desk)
    desk.will("recover", "first", OSError("down"))
    await desk.recover()
    row = await desk.node()
    assert (row["node_state"], row["error_code"], row["runner_id"]) == ("UNKNOWN", "LOOK_FAILED", None)
    assert row["due_in"] > 50
    await desk.make_due()
    await desk.recover()
    assert (await desk.node())["node_state"] == "SUBMITTED"


async def test_recovery_is_given_the_very_action_that_was_sent(desk: Desk) -> None:
    await uncertain(desk)
    contexts = []
    executor = desk.engine.executors.resolve("exec.local.move")
    assert isinstance(executor, ScriptedExecutor)
    recover = executor.recover

    async def keep(context: object, session: object = None) -> ExecutionResult:
        contexts.append(context)
        return await recover(context, session)  # type: ignore[arg-type]

    executor.recover = keep  # type: ignore[method-assign]
    await desk.recover()
    [context] = contexts
    [attempt] = await desk.rows("SELECT * FROM qtg.movement_node_attempts")
    assert context.idempotency_key == attempt["idempotency_key"] == desk.provider.book[0]  # type: ignore[attr-defined]
    assert context.prepared.payload_hash == attempt["payload_hash"]  # type: ignore[attr-defined]
    assert context.attempt_no == 1  # type: ignore[attr-defined]


async def left_in_submitting(desk: Desk, executor: str = "exec.local.move") -> None:
    """A runner that wrote its intent and died before it could send."""
    await desk.begin(plan_of(node("first", executor=executor)))
    async with desk.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as dead:
        [claim] = await desk.engine.store.claim_ready(dead, 1)
        work = (await desk.engine.store.load_works([claim]))[0]
        made = desk.engine.executors.resolve(executor)
        from qtg_dagster.engine.context import build_execution_context

        context = build_execution_context(work, attempt_no=1)
        prepared = await made.prepare(context)
        await desk.engine.store.record_intent(work, Intent(prepared, 1, context.idempotency_key))
        assert await claim_unknown_nodes(desk.engine, desk.runner) == []


async def test_a_dead_runners_submit_goes_to_recovery_and_never_back_to_submit(desk: Desk) -> None:
    await left_in_submitting(desk)
    assert await desk.dispatch(5) == 0
    assert await desk.recover() == 1
    row = await desk.node()
    assert (row["node_state"], desk.provider.count("submit", "first")) == ("UNKNOWN", 0)
    await desk.make_due()
    desk.will("recover", "first", S.FAILED)
    await desk.recover()
    assert (await desk.node())["node_state"] == "FAILED"


async def test_a_submit_within_its_lanes_grace_is_left_alone(desk: Desk) -> None:
    await left_in_submitting(desk, "exec.local.patient")
    assert await desk.recover() == 0
    guard = "qtg.movement_request_nodes {} TRIGGER guard_movement_request_nodes"  # it says when a row changed
    await desk.sql(f"ALTER TABLE {guard.format('DISABLE')}")
    await desk.sql("UPDATE qtg.movement_request_nodes SET updated_at = now() - interval '2 h'")
    await desk.sql(f"ALTER TABLE {guard.format('ENABLE')}")
    assert await desk.recover() == 1


async def test_each_arm_takes_at_most_its_quarter(desk: Desk) -> None:
    lanes = ("ccip", "stargate", "cex")
    nodes = [node(f"{lane}{n}", executor=f"exec.{lane}.send") for lane in lanes for n in range(3)]
    nodes += [node(f"rest{n}") for n in range(3)]
    await desk.begin(plan_of(*nodes))
    for item in nodes:
        desk.will("submit", item.node_key, TimeoutError("lost"))
        desk.will("recover", item.node_key, answer(S.UNKNOWN))
    await desk.dispatch(12)
    assert await desk.recover(8) == 8
    recovered = [key for method, key in desk.provider.calls if method == "recover"]
    for lane in (*lanes, "rest"):
        assert sum(key.startswith(lane) for key in recovered) == 2
    assert await desk.recover(1) == 4, "an arm's share is never nothing"


async def test_a_movement_that_left_executing_is_not_swept(desk: Desk) -> None:
    await uncertain(desk)
    claims = await claim_unknown_nodes(desk.engine, desk.runner)
    await desk.engine.store.load_works(claims)  # as they stood when they were claimed
    await desk.sql("UPDATE qtg.movement_requests SET request_state = 'MANUAL_INTERVENTION'")
    for claim in claims:
        await recover_node(desk.engine, (await desk.engine.store.load_works([claim]))[0])
    assert desk.provider.count("recover", "first") == 0
    assert await desk.recover() == 0
    await desk.sql("UPDATE qtg.movement_requests SET request_state = 'EXECUTING'")
    assert await desk.recover() == 1


async def test_the_whole_ladder_from_lost_answer_to_completed(desk: Desk) -> None:
    await desk.begin(chain())
    desk.will("submit", "first", TimeoutError("lost"))
    desk.will("recover", "first", S.UNKNOWN, S.UNKNOWN)
    await desk.dispatch()
    for _ in range(3):
        await desk.make_due()
        await desk.recover()
    await desk.observe()
    steps = [(step["step_kind"], step["to_state"]) for step in await desk.steps()]
    assert steps == [
        ("readied", "READY"),
        ("intent", "SUBMITTING"),
        ("outcome", "UNKNOWN"),
        ("recovered", None),
        ("recovered", "SUBMITTED"),
        ("observed", "COMPLETED"),
    ]
