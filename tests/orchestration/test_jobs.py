"""What people launch, from create to a completed movement, and what they are told when it is refused."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from qtg_dagster.domain.plans import Plan
from tests.orchestration.shapes import Launch, Rows, Shown


@pytest.fixture
def published(launch: Launch, plan: Plan) -> str:
    """The plan, published through its job."""
    result = launch("publish_templates", "publish", document=json.dumps(plan.model_dump(mode="json")))
    assert result.success
    return plan.template_key


@pytest.fixture
def created(launch: Launch, published: str, metadata: Shown) -> str:
    """A movement that waits for approval."""
    result = launch("create_movement", "create", template_key=published, requested_by="ada")
    assert result.success
    return metadata(result)["request id"]


def test_publishing_shows_each_template_as_a_picture(launch: Launch, plan: Plan, metadata: Shown) -> None:
    result = launch("publish_templates", "publish", document=json.dumps(plan.model_dump(mode="json")))
    picture = metadata(result)["two_steps"]
    assert picture.index("move") < picture.index("│") < picture.index("watch")


def test_creating_shows_id_hashes_and_plan_and_approves_nothing(
    launch: Launch, published: str, metadata: Shown, rows: Rows
) -> None:
    shown = metadata(launch("create_movement", "create", template_key=published, requested_by="ada"))
    [request] = rows("SELECT id::text AS id, request_state, compiled_plan_hash FROM qtg.movement_requests")
    assert shown["request id"] == request["id"]
    assert shown["compiled plan hash"] == request["compiled_plan_hash"]
    assert request["request_state"] == "PENDING_APPROVAL"


def test_the_same_idempotency_key_gives_the_same_movement(
    launch: Launch, published: str, metadata: Shown, rows: Rows
) -> None:
    order = {"template_key": published, "requested_by": "ada", "idempotency_key": "once"}
    first, second = (metadata(launch("create_movement", "create", **order)) for _ in range(2))
    assert first["request id"] == second["request id"]
    assert (first["created"], second["created"]) == (True, False)
    assert len(rows("SELECT 1 FROM qtg.movement_requests")) == 1


def test_a_refusal_names_field_and_fix(launch: Launch, published: str, failure: Shown, rows: Rows) -> None:
    result = launch("create_movement", "create", template_key=published, requested_by="ada", parameters={"sum": "1"})
    shown = failure(result)
    assert "parameters.sum" in shown.description
    assert shown.metadata["field"].value == "parameters.sum"
    assert shown.metadata["fix"].value
    assert rows("SELECT 1 FROM qtg.movement_requests") == []


def test_a_template_that_does_not_parse_is_refused_with_its_field(launch: Launch, failure: Shown) -> None:
    shown = failure(launch("publish_templates", "publish", document="template_key: Bad Key\ntitle: x\nnodes: []"))
    assert shown.metadata["field"].value == "document.template_key"


def test_a_field_of_the_wrong_type_is_refused_before_anything_runs(launch: Launch, published: str, rows: Rows) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match="requested_by"):
        launch("create_movement", "create", template_key=published)
    with pytest.raises(dg.DagsterInvalidConfigError, match="template_version"):
        launch("create_movement", "create", template_key=published, requested_by="ada", template_version="newest")
    assert rows("SELECT 1 FROM qtg.movement_requests") == []


def test_approving_makes_the_first_node_ready(launch: Launch, created: str, metadata: Shown, rows: Rows) -> None:
    shown = metadata(launch("approve_movement", "approve", request_id=created, actor="grace"))
    assert shown["request state"] == "APPROVED"
    states = rows("SELECT node_key, node_state FROM qtg.movement_request_nodes ORDER BY node_key")
    assert [row["node_state"] for row in states] == ["READY", "BLOCKED"]


def test_approving_twice_or_something_unknown_is_refused(launch: Launch, created: str, failure: Shown) -> None:
    launch("approve_movement", "approve", request_id=created, actor="grace")
    again = failure(launch("approve_movement", "approve", request_id=created, actor="grace"))
    assert again.metadata["error"].value == "Conflict"
    nobody = failure(launch("approve_movement", "approve", request_id="not-there", actor="grace"))
    assert nobody.metadata["error"].value == "NotFound"


@pytest.mark.parametrize(
    ("job", "op", "state"), [("reject_movement", "reject", "REJECTED"), ("cancel_movement", "cancel", "CANCELLED")]
)
def test_refusing_and_cancelling_end_a_movement(
    job: str, op: str, state: str, launch: Launch, created: str, metadata: Shown
) -> None:
    result = launch(job, op, request_id=created, actor="grace", reason="not today")
    assert metadata(result)["request state"] == state


def test_a_movement_that_has_not_stopped_is_neither_resumed_nor_retried(
    launch: Launch, created: str, failure: Shown
) -> None:
    who = {"request_id": created, "actor": "grace", "reason": "go on"}
    resumed = failure(launch("resume_movement", "resume", **who))
    assert resumed.metadata["error"].value == "Conflict"
    retried = failure(launch("retry_node", "retry", node_key="move", **who))
    assert retried.metadata["error"].value == "Conflict"


def test_a_failed_node_is_retried(launch: Launch, approved: str, metadata: Shown, rows: Rows) -> None:
    rows(
        "WITH step AS (INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, facts) "
        "SELECT id, 0, 'refused', '{}' FROM qtg.movement_request_nodes WHERE node_key = 'move' "
        "RETURNING id, request_node_id) "
        "UPDATE qtg.movement_request_nodes n SET node_state = 'FAILED', evidence_step_id = step.id "
        "FROM step WHERE n.id = step.request_node_id RETURNING n.id"
    )
    rows("UPDATE qtg.movement_requests SET request_state = 'FAILED' RETURNING id")
    shown = metadata(
        launch("retry_node", "retry", request_id=approved, node_key="move", actor="grace", reason="limit raised")
    )
    assert shown["request state"] == "EXECUTING"
    assert "move  READY" in shown["nodes"]


@pytest.fixture
def looked_at(launch: Launch, plan: Plan, metadata: Shown) -> str:
    """An approved movement that waits for a person's look."""
    manual = {"node_key": "manual_look", "node_kind": "manual", "action_type": "look"}
    document = plan.model_dump(mode="json") | {"template_key": "looked_at"}
    document["nodes"] = [manual, *document["nodes"]]
    document["edges"] = [*document["edges"], {"from_node": "manual_look", "to_node": "move"}]
    launch("publish_templates", "publish", document=json.dumps(document))
    created = metadata(launch("create_movement", "create", template_key="looked_at", requested_by="ada"))["request id"]
    approved = metadata(launch("approve_movement", "approve", request_id=created, actor="grace"))
    assert approved["request state"] == "WAITING_MANUAL_ACTION"
    assert approved["possible now"] == "cancel, complete manual_look, skip manual_look"
    return str(created)


@pytest.mark.parametrize(
    ("job", "op", "why"), [("complete_manual_step", "complete", "note"), ("skip_manual_step", "skip", "reason")]
)
def test_a_manual_step_is_done_or_skipped(
    launch: Launch, looked_at: str, metadata: Shown, job: str, op: str, why: str
) -> None:
    said = {why: "seen by phone"}
    done = launch(job, op, request_id=looked_at, node_key="manual_look", actor="grace", **said)
    assert metadata(done)["request state"] == "EXECUTING"
    assert "move  READY" in metadata(done)["nodes"]


def test_what_cannot_be_adopted_is_refused_with_what_is_possible(
    launch: Launch, approved: str, failure: Shown, rows: Rows
) -> None:
    refused = launch(
        "adopt_into_node", "adopt", request_id=approved, node_key="move", reference="0xbeef", actor="grace", reason="r"
    )
    assert "can adopt nothing" in failure(refused).description
    assert "Possible now: cancel" in failure(refused).description
    assert rows("SELECT 1 FROM qtg.audit_outbox WHERE action = 'adopt'") == []


def test_drains_take_a_movement_from_ready_to_completed(
    launch: Launch, approved: str, metadata: Shown, rows: Rows
) -> None:
    worked = []
    for _ in range(2):  # move, then watch
        for job in ("dispatch", "observe"):
            result = launch(job)
            assert result.success
            assert metadata(result)["ended because"] == "idle"
            worked.append(metadata(result)["nodes"])
    assert worked == [1, 1, 1, 1]
    [request] = rows("SELECT request_state FROM qtg.movement_requests")
    assert request["request_state"] == "COMPLETED"
    runners = rows("SELECT kind, dagster_run_id, end_reason FROM qtg.runners ORDER BY id")
    assert [row["kind"] for row in runners] == ["dispatch", "observe"] * 2
    assert all(row["dagster_run_id"] and row["end_reason"] == "finished" for row in runners)


def test_a_nonce_that_was_never_reserved_is_not_filled_and_says_so(launch: Launch, failure: Shown, rows: Rows) -> None:
    who = {"chain": "eip155:1", "sender": "0x" + "ab" * 20, "nonce": 4, "actor": "olivia"}
    refused = failure(launch("fill_nonce", "fill", **who, reason="it holds up the others"))
    assert "was never reserved here" in refused.description
    nothing = failure(launch("acknowledge_nonce", "acknowledge", **who, reason="asked back"))
    assert "nothing to acknowledge" in nothing.description
    assert rows("SELECT 1 FROM qtg.audit_outbox WHERE subject_type = 'evm_nonce'") == []
