"""Whatever is wrong before a submit stops the node before any effect, and says why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from qtg_dagster.domain.contract import ExecutionContext, NonceReservation, ResultStatus
from qtg_dagster.domain.errors import InvalidInput, SigningRefused, StaleClaim
from qtg_dagster.domain.plans import ApprovalPolicy
from qtg_dagster.domain.review import FeeEstimate
from qtg_dagster.engine.requests import cancel_movement
from qtg_dagster.executors.registry import ExecutorRegistry
from tests.engine.desk import Desk
from tests.engine.plans import chain, node, plan_of
from tests.engine.provider import ScriptedExecutor, answer

SIGNED = plan_of(node("first", executor="exec.local.signed", signer_role="desk"), key="signed")
BINDINGS = {"desk": "signer.local.desk"}


async def refused(desk: Desk, code: str, node_key: str = "first") -> None:
    """The node FAILED with this code, evidence says that nothing was sent, and the provider saw no submit."""
    row = await desk.node(node_key)
    assert (row["node_state"], row["error_code"]) == ("FAILED", code)
    [evidence] = await desk.rows("SELECT * FROM qtg.movement_node_steps WHERE id = :id", id=row["evidence_step_id"])
    assert evidence["step_kind"] == "refused"
    assert evidence["facts"]["effect"] == "none: nothing was sent"
    assert desk.provider.count("submit", node_key) == 0
    assert row["runner_id"] is None


async def deferred(desk: Desk, code: str, seconds: float, node_key: str = "first") -> None:
    """The node is READY again with this reason on record, looked at in about `seconds`, and nothing was sent."""
    row = await desk.node(node_key)
    assert (row["node_state"], row["error_code"]) == ("READY", code)
    assert seconds - 60 < row["due_in"] <= seconds
    assert (await desk.steps(node_key))[-1]["step_kind"] == "deferred"
    assert desk.provider.count("submit", node_key) == 0
    assert row["runner_id"] is None
    assert await desk.rows("SELECT 1 FROM qtg.movement_node_attempts") == []


async def test_a_refusal_in_preflight_fails_the_node_with_its_evidence(desk: Desk) -> None:
    await desk.begin(chain())
    desk.will("preflight", "first", answer(ResultStatus.REJECTED, error_code="BELOW_MINIMUM", evidence={"min": "20"}))
    assert await desk.dispatch() == 1
    await refused(desk, "BELOW_MINIMUM")
    assert (await desk.steps())[-1]["facts"]["min"] == "20"
    assert await desk.request_state() == "FAILED"
    assert desk.provider.count("prepare", "first") == 0


async def test_not_now_in_preflight_is_asked_again_after_its_own_delay(desk: Desk) -> None:
    await desk.begin(chain())
    desk.will("preflight", "first", answer(ResultStatus.NOT_SENT, error_code="MAINTENANCE", retry_after_seconds=90))
    await desk.dispatch()
    await deferred(desk, "MAINTENANCE", 90)
    assert await desk.dispatch() == 0
    await desk.make_due()
    assert await desk.dispatch() == 1
    assert (await desk.node())["node_state"] == "SUBMITTED"


async def test_nobody_is_put_off_for_ever(desk: Desk) -> None:
    await desk.begin(chain())
    desk.will("preflight", "first", answer(ResultStatus.NOT_SENT, retry_after_seconds=float("inf")))
    await desk.dispatch()
    await deferred(desk, "NOT_NOW", 600)


@pytest.mark.parametrize(("method", "code"), [("preflight", "PREFLIGHT_ERROR"), ("prepare", "PREPARE_ERROR")])
async def test_an_error_before_the_submit_backs_off_and_sends_nothing(desk: Desk, method: str, code: str) -> None:
    await desk.begin(chain())
    delays = []
    for _ in range(4):
        desk.will(method, "first", OSError("api_key=hunter2 rejected"))
        await desk.dispatch()
        await deferred(desk, code, 60)
        delays.append((await desk.node())["due_in"])
        await desk.make_due()
    assert delays == sorted(delays)
    assert delays[-1] > 5
    assert "hunter2" not in str(await desk.steps()) + str(await desk.node())
    await desk.dispatch()
    assert len(desk.provider.book) == 1


async def test_a_quiet_period_of_deferrals_starts_small_for_another_reason(desk: Desk) -> None:
    await desk.begin(chain())
    for _ in range(4):
        desk.will("preflight", "first", OSError("down"))
        await desk.dispatch()
        await desk.make_due()
    desk.will("prepare", "first", OSError("other"))
    await desk.dispatch()
    assert (await desk.node())["due_in"] <= 1


@pytest.mark.parametrize("method", ["preflight", "prepare"])
async def test_bad_input_found_by_the_executor_is_final(desk: Desk, method: str) -> None:
    await desk.begin(chain())
    desk.will(method, "first", InvalidInput("amount", "is below the step", "Give a multiple."))
    await desk.dispatch()
    await refused(desk, "INVALID_INPUT")


async def test_a_reference_that_the_provider_never_gave_is_unresolved(desk: Desk) -> None:
    await desk.begin(chain())
    desk.will("submit", "first", answer(ResultStatus.COMPLETED))  # without its reference
    await desk.dispatch()
    await desk.dispatch()
    await refused(desk, "CONFIG_REF_UNRESOLVED", "watch")
    assert await desk.request_state() == "MANUAL_INTERVENTION"


VALID_FOR_AN_HOUR = chain().model_copy(update={"approval": ApprovalPolicy(valid_seconds=3600)})


@pytest.mark.parametrize(("age", "starts"), [(3590, True), (3601, False)])
async def test_an_approval_counts_for_as_long_as_the_template_says(desk: Desk, age: int, *, starts: bool) -> None:
    await desk.begin(VALID_FOR_AN_HOUR)
    await desk.sql("UPDATE qtg.movement_requests SET approved_at = now() - make_interval(secs => :age)", age=age)
    await desk.dispatch()
    if starts:
        assert (await desk.node())["node_state"] == "SUBMITTED"
        return
    await refused(desk, "APPROVAL_EXPIRED")
    [told] = await desk.rows("SELECT details FROM qtg.audit_outbox WHERE action = 'refuse'")
    assert told["details"]["error_code"] == "APPROVAL_EXPIRED"


async def test_the_signer_is_told_what_was_approved_and_until_when(desk: Desk) -> None:
    limited = SIGNED.model_copy(update={"approval": ApprovalPolicy(valid_seconds=3600)})
    await desk.begin(limited, bindings=BINDINGS)
    await desk.dispatch()
    [request] = desk.signer.requests
    [movement] = await desk.rows("SELECT approval_digest, approved_at FROM qtg.movement_requests")
    assert request.metadata["approval_digest"] == movement["approval_digest"]
    expires_at = datetime.fromisoformat(request.metadata["approval_expires_at"])
    assert expires_at == movement["approved_at"] + timedelta(hours=1)


class Pricing(ScriptedExecutor):
    """Says beforehand what it would take, or that it does not know."""

    fee: str | Exception = "0"

    async def estimate_fee(self, context: ExecutionContext) -> FeeEstimate:  # noqa: ARG002 - the contract's
        if isinstance(self.fee, Exception):
            raise self.fee
        return FeeEstimate(asset="USDC", amount=self.fee, how="as scripted")


@pytest.mark.parametrize(
    ("fee", "starts"), [("0.5", True), ("0.500001", False), (OSError("no price now"), True)], ids=str
)
async def test_a_fee_over_the_templates_ceiling_is_refused_before_the_executor_is_asked(
    desk: Desk, executors: ExecutorRegistry, fee: str | Exception, *, starts: bool
) -> None:
    pricing = Pricing(desk.provider)
    pricing.fee = fee
    executors.register("exec.local.pricing", pricing)
    plan = plan_of(node("first", executor="exec.local.pricing"))
    controls = plan.risk_controls.model_copy(update={"max_fee": "0.5"})
    await desk.begin(plan.model_copy(update={"risk_controls": controls}))
    await desk.dispatch()
    if starts:
        assert (await desk.node())["node_state"] == "SUBMITTED"
    else:
        await refused(desk, "RISK_CONTROL_VIOLATED")
        assert desk.provider.count("preflight", "first") == 0


EDITS = {
    "config": 'UPDATE qtg.movement_plan_nodes SET config = config || \'{"destination": "0xevil"}\' '
    "WHERE node_key = 'first'",
    "executor": "UPDATE qtg.movement_plan_nodes SET executor_key = 'exec.local.keyed' WHERE node_key = 'first'",
    "edges": "DELETE FROM qtg.movement_plan_edges WHERE to_node = 'last'",
    "hard cap": 'UPDATE qtg.movement_plan_versions SET risk_controls = risk_controls || \'{"hard_cap": "99999"}\'',
    "allowlist": "UPDATE qtg.movement_plan_versions "
    'SET risk_controls = risk_controls || \'{"destination_allowlist": ["0xallowed", "0xevil"]}\'',
    "timeout": "UPDATE qtg.movement_plan_nodes SET timeout_policy = '{\"observe_seconds\": 1}' "
    "WHERE node_key = 'watch'",
    "parameters": 'UPDATE qtg.movement_requests SET input_params = \'{"amount": "999"}\'',
    "intent": 'UPDATE qtg.movement_requests SET intent = intent || \'{"amount": "999"}\'',
    "bindings": "UPDATE qtg.movement_requests "
    """SET resolved_bindings = resolved_bindings || '{"signer:x": "signer.a.b"}'""",
    "hash": "UPDATE qtg.movement_requests SET compiled_plan_hash = 'other'",
    "digest": "UPDATE qtg.movement_requests SET approval_digest = 'other'",
}


@pytest.mark.parametrize("edit", EDITS)
async def test_an_edit_after_approval_is_seen_before_any_effect(desk: Desk, edit: str) -> None:
    await desk.begin(chain())
    await desk.sql(EDITS[edit])
    await desk.dispatch()
    await refused(desk, "PLAN_DRIFT")
    assert desk.provider.calls == []


@pytest.mark.parametrize(
    ("refs", "code"),
    [
        ({"amount": "1000.000001", "to": "0xallowed"}, "RISK_CONTROL_VIOLATED"),
        ({"amount": "0", "to": "0xallowed"}, "RISK_CONTROL_VIOLATED"),
        ({"amount": "5", "to": "0xevil"}, "RISK_CONTROL_VIOLATED"),
        ({"amount": "1e2", "to": "0xallowed"}, "INVALID_INPUT"),
        ({"amount": "5", "to": ""}, "CONFIG_REF_UNRESOLVED"),
    ],
)
async def test_what_an_earlier_node_reported_cannot_carry_a_movement_past_its_limits(
    desk: Desk, refs: dict[str, str], code: str
) -> None:
    config = {"asset": "USDC", "amount": "$ref:first.amount", "destination": "$ref:first.to"}
    await desk.begin(plan_of(node("first"), node("last", config=config), edges=(("first", "last"),)))
    desk.will("submit", "first", answer(ResultStatus.COMPLETED, provider_refs=refs))
    await desk.dispatch()
    await desk.dispatch()
    await refused(desk, code, "last")


async def test_an_amount_without_an_asset_cannot_be_judged_and_is_refused(desk: Desk) -> None:
    await desk.begin(plan_of(node("first", config={"amount": "5"})))
    await desk.dispatch()
    await refused(desk, "INVALID_INPUT")
    assert desk.provider.calls == []


async def test_a_missing_executor_leaves_the_node_for_a_process_that_has_it(desk: Desk) -> None:
    await desk.begin(chain())
    desk.engine.executors._entries.pop("exec.local.move")
    await desk.dispatch()
    await deferred(desk, "EXECUTOR_MISSING", 60)


async def test_a_payload_that_is_not_what_its_hash_says_is_not_sent(desk: Desk) -> None:
    await desk.begin(chain())
    desk.provider.prepared = {"payload": "something else"}
    await desk.dispatch()
    await deferred(desk, "PAYLOAD_HASH_WRONG", 60)


async def test_an_action_that_cannot_be_written_ahead_is_not_sent(desk: Desk) -> None:
    await desk.begin(chain())
    desk.provider.prepared = {"provider_refs": {"client_id": "a\x00b"}}
    await desk.dispatch()
    await deferred(desk, "PREPARED_NOT_STORABLE", 60)


async def test_an_action_that_arrives_stale_is_prepared_again(desk: Desk) -> None:
    await desk.begin(chain())
    desk.provider.expires_at = [datetime.now(UTC) - timedelta(seconds=1), datetime.now(UTC) + timedelta(hours=1)]
    await desk.dispatch()
    await deferred(desk, "PREPARED_EXPIRED", 1)
    await desk.make_due()
    await desk.dispatch()
    assert desk.provider.count("prepare", "first") == 2
    assert len(desk.provider.book) == 1


async def test_a_nonce_that_is_not_reserved_stops_the_intent_and_frees_the_node(desk: Desk) -> None:
    await desk.begin(chain())
    reservation = NonceReservation(chain="eip155:1", sender="0x" + "11" * 20, nonce=7)
    desk.provider.prepared = {"nonce_reservation": reservation}
    await desk.dispatch()
    row = await desk.node()
    assert (row["node_state"], row["runner_id"], row["attempt_no"]) == ("READY", None, 0)
    assert desk.provider.book == []


async def test_the_signature_is_written_ahead_with_what_was_signed(desk: Desk) -> None:
    await desk.begin(SIGNED, bindings=BINDINGS)
    await desk.dispatch()
    [request] = desk.signer.requests
    [attempt] = await desk.rows("SELECT * FROM qtg.movement_node_attempts")
    assert attempt["prepared"]["signed_payload"] == "0xsigned"
    assert attempt["payload_hash"] == request.payload_hash == request.signing_intent.allowed_payload_hash
    assert attempt["signer_key"] == "signer.local.desk"
    assert (await desk.node())["provider_refs"]["tx_hash"] == "0xfeed"


async def test_a_signer_that_refuses_is_obeyed(desk: Desk) -> None:
    await desk.begin(SIGNED, bindings=BINDINGS)
    desk.will("sign", "signer.local.desk", SigningRefused("destination is not on the policy's list"))
    await desk.dispatch()
    await refused(desk, "SIGNING_REFUSED")
    [told] = await desk.rows("SELECT * FROM qtg.audit_outbox WHERE action = 'refuse'")
    assert (told["actor"], told["subject_id"]) == ("engine", desk.request_id)
    [movement] = await desk.rows("SELECT compiled_plan_hash, approval_digest FROM qtg.movement_requests")
    assert told["details"] == {
        **movement,
        "node_key": "first",
        "error_code": "SIGNING_REFUSED",
        "reason": "destination is not on the policy's list",
    }


async def test_a_signer_that_cannot_be_reached_is_asked_again(desk: Desk) -> None:
    await desk.begin(SIGNED, bindings=BINDINGS)
    desk.will("sign", "signer.local.desk", ConnectionError("no route"))
    await desk.dispatch()
    await deferred(desk, "SIGNER_UNAVAILABLE", 60)


async def test_a_signature_over_another_payload_is_refused(desk: Desk) -> None:
    await desk.begin(SIGNED, bindings=BINDINGS)
    desk.signer.answers_for = "0" * 64
    await desk.dispatch()
    await refused(desk, "SIGNING_REFUSED")


async def test_an_action_that_needs_a_signature_is_not_sent_without_a_role(desk: Desk) -> None:
    await desk.begin(plan_of(node("first", executor="exec.local.signed"), key="unsigned"))
    await desk.dispatch()
    await refused(desk, "SIGNING_REFUSED")


async def test_a_cancel_during_preflight_wins_and_nothing_is_sent(desk: Desk) -> None:
    request_id = await desk.begin(chain())
    desk.provider.during(
        "preflight", "first", lambda: cancel_movement(desk.engine, request_id, actor="grace", reason="stop")
    )
    assert await desk.dispatch() == 1
    assert desk.provider.book == []
    assert set((await desk.states()).values()) == {"CANCELLED"}


async def test_a_refusal_that_comes_after_a_cancel_changes_nothing_but_is_on_record(desk: Desk) -> None:
    request_id = await desk.begin(chain())
    desk.provider.during(
        "preflight", "first", lambda: cancel_movement(desk.engine, request_id, actor="grace", reason="stop")
    )
    desk.will("preflight", "first", ResultStatus.REJECTED)
    assert await desk.dispatch() == 1
    assert (await desk.node())["node_state"] == "CANCELLED"
    assert (await desk.steps())[-1]["step_kind"] == "fenced"


async def test_a_movement_that_waits_for_a_person_does_not_keep_its_nodes_claimed(desk: Desk) -> None:
    await desk.begin(plan_of(node("first"), node("other")))
    await desk.sql(
        "UPDATE qtg.movement_request_nodes SET next_look_at = now() + interval '1 h' WHERE node_key = 'other'"
    )

    async def a_person_is_called() -> None:
        for state in ("EXECUTING", "MANUAL_INTERVENTION"):
            await desk.sql("UPDATE qtg.movement_requests SET request_state = :state", state=state)

    desk.provider.during("prepare", "first", a_person_is_called)
    assert await desk.dispatch() == 1
    assert desk.provider.book == []
    row = await desk.node()
    assert (row["node_state"], row["runner_id"]) == ("READY", None)
    await desk.sql("UPDATE qtg.movement_requests SET request_state = 'EXECUTING'")
    assert await desk.dispatch() == 1
    assert len(desk.provider.book) == 1


def test_losing_a_claim_is_its_own_kind_of_error() -> None:
    assert not issubclass(StaleClaim, InvalidInput)
