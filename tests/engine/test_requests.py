"""People's decisions: bad ones leave nothing behind, good ones are stored whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from qtg_dagster.domain.errors import (
    ApprovalExpired,
    Conflict,
    InvalidInput,
    NotFound,
    PlanDrift,
    QtgError,
    RiskControlViolated,
)
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import (
    approve_movement,
    cancel_movement,
    complete_manual_node,
    create_movement,
    publish_template,
    reject_movement,
)
from tests.engine.desk import Desk
from tests.engine.plans import chain, manual, node, order_of, plan_of

TABLES = (
    "movement_requests",
    "movement_request_nodes",
    "movement_node_steps",
    "movement_approvals",
    "movement_callback_outbox",
    "audit_outbox",
)
ADDRESS_PLAN = plan_of(
    node("first", config={"asset": "USDC", "amount": "$param:amount", "destination": "$param:to"}),
    key="to_address",
    parameters=({"name": "amount", "type": "amount", "asset": "USDC"}, {"name": "to", "type": "address"}),
    risk_controls={"hard_cap": "1000", "destination_allowlist": ["0x" + "aB" * 20]},
)


async def counts(desk: Desk) -> dict[str, int]:
    """Rows in every table that a decision writes to."""
    found = {}
    for table in TABLES:
        [row] = await desk.rows(f"SELECT count(*) AS n FROM qtg.{table}")  # noqa: S608
        found[table] = row["n"]
    return found


BAD_ORDERS: list[tuple[dict[str, Any], type[QtgError], str]] = [
    ({"parameters": {"amount": "1e3"}}, InvalidInput, "parameters.amount"),
    ({"parameters": {"amount": "+1"}}, InvalidInput, "parameters.amount"),
    ({"parameters": {"amount": "1,000"}}, InvalidInput, "parameters.amount"),
    ({"parameters": {"amount": "NaN"}}, InvalidInput, "parameters.amount"),
    ({"parameters": {"amount": "0.0000001"}}, InvalidInput, "parameters.amount"),
    ({"parameters": {"amount": 12.5}}, InvalidInput, "parameters.amount"),
    ({"parameters": {"amount": ""}}, InvalidInput, "parameters.amount"),
    ({"parameters": {}}, InvalidInput, "parameters.amount"),
    ({"parameters": {"amount": "0"}}, RiskControlViolated, "parameters.amount"),
    ({"parameters": {"amount": "-1"}}, InvalidInput, "parameters.amount"),
    ({"parameters": {"amount": "1000.000001"}}, RiskControlViolated, "parameters.amount"),
    ({"parameters": {"amount": "9" * 80}}, InvalidInput, "parameters.amount"),
    ({"parameters": {"amount": "1", "ammount": "1"}}, InvalidInput, "parameters.ammount"),
    ({"template_key": "nowhere"}, InvalidInput, "template_key"),
    ({"template_key": ""}, InvalidInput, "template_key"),
    ({"template_version": 7}, InvalidInput, "template_key"),
    ({"template_version": 0}, InvalidInput, "template_version"),
    ({"requested_by": "  "}, InvalidInput, "requested_by"),
    ({"idempotency_key": ""}, InvalidInput, "idempotency_key"),
    ({"callback_url": "ftp://desk"}, InvalidInput, "callback_url"),
    ({"approval_ttl_seconds": 0}, InvalidInput, "approval_ttl_seconds"),
    ({"bindings": {"nobody": "signer.local.desk"}}, InvalidInput, "bindings.nobody"),
    ({"reason": "a\x00b"}, InvalidInput, "reason"),
    ({"unheard_of": 1}, InvalidInput, "unheard_of"),
]


@pytest.mark.parametrize(("change", "kind", "field"), BAD_ORDERS)
async def test_a_bad_order_is_refused_by_field_and_leaves_nothing(
    desk: Desk, change: dict[str, Any], kind: type[QtgError], field: str
) -> None:
    await publish_template(desk.engine, chain())
    before = await counts(desk)
    document = {"template_key": "chain", "parameters": {"amount": "12.5"}, "requested_by": "ada", **change}
    with pytest.raises(kind) as refused:
        await create_movement(desk.engine, MovementOrder.read(document))
    assert isinstance(refused.value, InvalidInput)
    assert refused.value.field == field
    assert refused.value.fix
    assert await counts(desk) == before


async def test_a_destination_outside_the_allowlist_is_refused_by_its_parameter(desk: Desk) -> None:
    await publish_template(desk.engine, ADDRESS_PLAN)
    before = await counts(desk)
    for to, kind in (("0x" + "cd" * 20, RiskControlViolated), ("0xab", InvalidInput), ("", InvalidInput)):
        with pytest.raises(kind) as refused:
            await create_movement(desk.engine, order_of(ADDRESS_PLAN, parameters={"amount": "1", "to": to}))
        assert refused.value.field == "parameters.to"
    assert await counts(desk) == before
    good = order_of(ADDRESS_PLAN, parameters={"amount": "01"[1:], "to": "0x" + "Ab" * 20})
    assert (await create_movement(desk.engine, good)).created


async def test_a_template_with_an_unregistered_executor_is_not_published(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match=r"nodes\.first\.executor_key.*exec\.local\.gone"):
        await publish_template(desk.engine, plan_of(node("first", executor="exec.local.gone")))
    assert await desk.rows("SELECT 1 FROM qtg.movement_templates") == []


async def test_a_signer_role_is_bound_to_a_registered_signer_or_the_accounts_own(desk: Desk) -> None:
    plan = plan_of(node("first", signer_role="desk", config={"account": "treasury"}), key="signed")
    await publish_template(desk.engine, plan)
    with pytest.raises(InvalidInput, match=r"bindings\.desk"):
        await create_movement(desk.engine, order_of(plan, bindings={"desk": "signer.local.gone"}))
    await create_movement(desk.engine, order_of(plan))
    [row] = await desk.rows("SELECT resolved_bindings FROM qtg.movement_requests")
    assert row["resolved_bindings"]["signer:desk"] == "signer.local.desk"


async def test_a_movement_is_stored_whole_and_waits(desk: Desk) -> None:
    await desk.create(chain(), callback_url="https://desk.example/", reason="rebalance")
    assert await counts(desk) == {
        "movement_requests": 1,
        "movement_request_nodes": 3,
        "movement_node_steps": 0,
        "movement_approvals": 0,
        "movement_callback_outbox": 0,
        "audit_outbox": 2,  # the template, and the movement
    }
    [row] = await desk.rows("SELECT *, expires_at - created_at AS ttl FROM qtg.movement_requests")
    assert row["request_state"] == "PENDING_APPROVAL"
    assert row["ttl"].total_seconds() == desk.engine.settings.approval_ttl_seconds
    assert row["intent"]["destination"] == "0xallowed"
    assert set((await desk.states()).values()) == {"BLOCKED"}
    assert await desk.dispatch(5) == 0


async def test_the_same_key_and_order_is_the_same_movement(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    order = order_of(chain(), idempotency_key="k1")
    first = await create_movement(desk.engine, order)
    before = await counts(desk)
    again = await create_movement(desk.engine, order)
    assert (again.request_id, again.created, first.created) == (first.request_id, False, True)
    assert again.compiled_plan_hash == first.compiled_plan_hash
    assert await counts(desk) == before


async def test_the_same_key_with_another_order_is_a_conflict(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    await create_movement(desk.engine, order_of(chain(), idempotency_key="k1"))
    before = await counts(desk)
    for change in ({"parameters": {"amount": "13"}}, {"reason": "other"}, {"requested_by": "eve"}):
        with pytest.raises(Conflict, match="k1"):
            await create_movement(desk.engine, order_of(chain(), idempotency_key="k1", **change))
    assert await counts(desk) == before


async def test_one_key_used_by_many_at_once_makes_one_movement(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    order = order_of(chain(), idempotency_key="k1")
    receipts = await asyncio.gather(*(create_movement(desk.engine, order) for _ in range(8)))
    assert len({receipt.request_id for receipt in receipts}) == 1
    assert [receipt.created for receipt in receipts].count(True) == 1
    assert (await counts(desk))["movement_request_nodes"] == 3


async def test_creation_in_the_callers_transaction_stands_or_falls_with_it(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    before = await counts(desk)

    async def change_of_mind() -> None:
        async with desk.engine.database.transaction() as transaction:
            await create_movement(desk.engine, order_of(chain()), transaction)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await change_of_mind()
    assert await counts(desk) == before
    async with desk.engine.database.session() as session, session.begin():
        await session.execute(text("CREATE TEMP TABLE invoice AS SELECT 1 AS paid"))
        receipt = await create_movement(desk.engine, order_of(chain()), session)
    assert receipt.created
    assert (await counts(desk))["movement_requests"] == 1


async def test_an_approval_records_what_was_agreed_to(desk: Desk) -> None:
    request_id = await desk.begin(chain(), callback_url="https://desk.example/")
    [approval] = await desk.rows("SELECT * FROM qtg.movement_approvals")
    [request] = await desk.rows("SELECT * FROM qtg.movement_requests")
    assert (approval["actor"], approval["decision"]) == ("grace", "approved")
    assert approval["approval_digest"] == request["approval_digest"]
    assert approval["compiled_plan_hash"] == request["compiled_plan_hash"]
    assert request["current_frontier"] == ["first"]
    assert [row["payload"] for row in await desk.callbacks()] == [
        {"request_id": request_id, "request_state": "APPROVED"}
    ]
    audited = await desk.rows(
        "SELECT actor, action FROM qtg.audit_outbox WHERE subject_id = :id ORDER BY id", id=request_id
    )
    assert audited == [{"actor": "ada", "action": "create"}, {"actor": "grace", "action": "approve"}]


async def test_without_a_url_nobody_is_told(desk: Desk) -> None:
    await desk.begin(plan_of(node("first")))
    await desk.dispatch()
    await desk.observe()
    assert await desk.request_state() == "COMPLETED"
    assert await desk.callbacks() == []


async def test_a_decision_is_made_once(desk: Desk) -> None:
    request_id = await desk.begin(chain())
    before = await counts(desk)
    with pytest.raises(Conflict, match="it is APPROVED"):
        await approve_movement(desk.engine, request_id, actor="heidi")
    with pytest.raises(Conflict, match="it is APPROVED"):
        await reject_movement(desk.engine, request_id, actor="heidi", reason="late")
    assert await counts(desk) == before


async def test_of_two_approvals_at_once_one_stands(desk: Desk) -> None:
    request_id = await desk.create(chain())
    done = await asyncio.gather(
        *(approve_movement(desk.engine, request_id, actor=who) for who in ("grace", "heidi", "grace")),
        return_exceptions=True,
    )
    assert sorted(type(item).__name__ for item in done) == ["Approval", "Conflict", "Conflict"]
    found = await counts(desk)
    assert (found["movement_approvals"], found["movement_node_steps"]) == (1, 1)


@pytest.mark.parametrize("decide", [approve_movement, reject_movement])
async def test_a_decision_after_the_window_is_too_late(desk: Desk, decide: Any) -> None:
    request_id = await desk.create(chain())
    await desk.sql("UPDATE qtg.movement_requests SET expires_at = now() - interval '1 s'")
    before = await counts(desk)
    with pytest.raises(ApprovalExpired):
        await decide(desk.engine, request_id, actor="grace", reason="")
    assert await counts(desk) == before
    assert await desk.request_state() == "PENDING_APPROVAL"


@pytest.mark.parametrize("request_id", ["", "x", "0" * 36, "00000000-0000-0000-0000-000000000000", "';--"])
async def test_a_movement_that_is_not_there_is_not_found(desk: Desk, request_id: str) -> None:
    with pytest.raises(NotFound):
        await approve_movement(desk.engine, request_id, actor="grace")


async def test_another_network_class_is_another_world(desk: Desk) -> None:
    request_id = await desk.create(chain())
    desk.under(network_class="mainnet")
    with pytest.raises(NotFound):
        await approve_movement(desk.engine, request_id, actor="grace")


async def test_an_edit_before_approval_is_drift_too(desk: Desk) -> None:
    request_id = await desk.create(chain())
    await desk.sql("UPDATE qtg.movement_plan_nodes SET timeout_policy = '{\"observe_seconds\": 5}'")
    with pytest.raises(PlanDrift, match="timeouts"):
        await approve_movement(desk.engine, request_id, actor="grace")
    assert await desk.request_state() == "PENDING_APPROVAL"


async def test_nothing_is_approved_while_what_it_needs_is_down(desk: Desk) -> None:
    request_id = await desk.create(chain())
    insert = "INSERT INTO qtg.executor_registry (network_class, executor_key, health_state) VALUES (:c, :k, :h)"
    await desk.sql(insert, c="sandbox", k="exec.local.keyed", h="down")
    await desk.sql(insert, c="mainnet", k="exec.local.move", h="down")
    await desk.sql(insert, c="sandbox", k="exec.local.move", h="down")
    with pytest.raises(Conflict, match=r"exec\.local\.move is down"):
        await approve_movement(desk.engine, request_id, actor="grace")
    await desk.sql("UPDATE qtg.executor_registry SET health_state = 'unknown' WHERE network_class = 'sandbox'")
    await approve_movement(desk.engine, request_id, actor="grace")
    assert await desk.request_state() == "APPROVED"


async def test_a_rejected_movement_starts_nothing_ever(desk: Desk) -> None:
    request_id = await desk.create(chain())
    await reject_movement(desk.engine, request_id, actor="grace", reason="not today")
    assert await desk.request_state() == "REJECTED"
    assert set((await desk.states()).values()) == {"CANCELLED"}
    with pytest.raises(Conflict):
        await approve_movement(desk.engine, request_id, actor="heidi")
    with pytest.raises(Conflict, match="already REJECTED"):
        await cancel_movement(desk.engine, request_id, actor="heidi", reason="again")


async def test_what_has_expired_cannot_be_cancelled(desk: Desk) -> None:
    request_id = await desk.create(chain())
    await desk.sql("UPDATE qtg.movement_requests SET request_state = 'EXPIRED'")
    with pytest.raises(Conflict, match="already EXPIRED"):
        await cancel_movement(desk.engine, request_id, actor="grace", reason="tidy up")


@pytest.mark.parametrize("state", ["SUBMITTED", "UNKNOWN"])
async def test_what_may_have_moved_cannot_be_called_off(desk: Desk, state: str) -> None:
    request_id = await desk.begin(chain())
    if state == "UNKNOWN":
        desk.will("submit", "first", TimeoutError("lost"))
    await desk.dispatch()
    before = await counts(desk)
    with pytest.raises(Conflict, match=f"first {state}"):
        await cancel_movement(desk.engine, request_id, actor="grace", reason="stop")
    assert await counts(desk) == before
    assert (await desk.states())["watch"] == "BLOCKED"


MANUAL = plan_of(manual("manual_a"), node("last"), edges=(("manual_a", "last"),), key="by_hand")


async def test_a_manual_step_is_done_once_by_a_named_person(desk: Desk) -> None:
    request_id = await desk.begin(MANUAL, callback_url="https://desk.example/")
    await complete_manual_node(desk.engine, request_id, "manual_a", actor="heidi", note="ticket 12")
    [step] = [step for step in await desk.steps("manual_a") if step["step_kind"] == "operator"]
    row = await desk.node("manual_a")
    assert (step["actor"], step["facts"]["note"], row["evidence_step_id"]) == ("heidi", "ticket 12", step["id"])
    assert [row["event_type"] for row in await desk.callbacks()][-2:] == ["frontier_advanced", "request_state_changed"]
    [request] = await desk.rows("SELECT current_frontier FROM qtg.movement_requests")
    assert request["current_frontier"] == ["last"]
    before = await counts(desk)
    with pytest.raises(Conflict, match="is COMPLETED"):
        await complete_manual_node(desk.engine, request_id, "manual_a", actor="heidi", note="again")
    assert await counts(desk) == before


@pytest.mark.parametrize(
    ("node_key", "note", "kind"),
    [("last", "done", Conflict), ("nowhere", "done", NotFound), ("manual_a", " ", InvalidInput)],
)
async def test_a_manual_step_that_cannot_be_taken_is_refused(
    desk: Desk, node_key: str, note: str, kind: type[QtgError]
) -> None:
    request_id = await desk.begin(MANUAL)
    before = await counts(desk)
    with pytest.raises(kind):
        await complete_manual_node(desk.engine, request_id, node_key, actor="heidi", note=note)
    assert await counts(desk) == before


async def test_a_manual_step_waits_for_approval(desk: Desk) -> None:
    request_id = await desk.create(MANUAL)
    with pytest.raises(Conflict, match="not approved yet"):
        await complete_manual_node(desk.engine, request_id, "manual_a", actor="heidi", note="early")


async def test_a_plan_of_manual_steps_alone_ends_completed(desk: Desk) -> None:
    request_id = await desk.begin(plan_of(manual("manual_a"), manual("manual_b"), key="hands"))
    assert await desk.request_state() == "WAITING_MANUAL_ACTION"
    for key in ("manual_a", "manual_b"):
        assert await desk.request_state() == "WAITING_MANUAL_ACTION"
        await complete_manual_node(desk.engine, request_id, key, actor="heidi", note="done")
    assert await desk.request_state() == "COMPLETED"


async def test_health_is_told_at_the_order_and_bars_the_approval_alone(desk: Desk) -> None:
    await desk.sql(
        "INSERT INTO qtg.executor_registry (network_class, executor_key, health_state) VALUES "
        "('sandbox', 'exec.local.move', 'down'), ('sandbox', 'exec.local.watch', 'unknown'), "
        "('sandbox', 'exec.cex.send', 'down'), ('other', 'exec.local.move', 'healthy')"
    )
    await publish_template(desk.engine, chain())
    receipt = await create_movement(desk.engine, order_of(chain()))
    assert receipt.unwell == {"exec.local.move": "down", "exec.local.watch": "unknown"}
    with pytest.raises(Conflict, match=r"cannot approve while exec\.local\.move is down"):
        await approve_movement(desk.engine, receipt.request_id, actor="grace")
    await desk.sql("UPDATE qtg.executor_registry SET health_state = 'healthy'")
    await approve_movement(desk.engine, receipt.request_id, actor="grace")
