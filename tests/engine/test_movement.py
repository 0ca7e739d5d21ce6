"""A movement from approval to its end, step by step, judged by the provider's book and the stored rows."""

from __future__ import annotations

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import ApprovalExpired, Conflict, InvalidInput, NotFound, RiskControlViolated
from qtg_dagster.domain.plans import Plan
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.observe import observe_active_nodes
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.recover import recover_unknown_nodes
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template
from qtg_dagster.store.runners import Runner
from tests.engine.provider import ScriptedProvider, answer


async def begin(engine: Engine, plan: Plan, **order: object) -> str:
    await publish_template(engine, plan)
    values = {"template_key": plan.template_key, "parameters": {"amount": "12.5"}, "requested_by": "ada", **order}
    receipt = await create_movement(engine, MovementOrder.read(values))
    await approve_movement(engine, receipt.request_id, actor="grace")
    return receipt.request_id


async def test_three_nodes_run_one_after_another_to_completed(engine, runner, provider, chain_plan, rows) -> None:
    request_id = await begin(engine, chain_plan)
    for _ in range(3):
        assert await dispatch_ready_nodes(engine, runner) == 1
        assert await observe_active_nodes(engine, runner) == 1
    [request] = await rows("SELECT request_state, finished_at FROM qtg.movement_requests")
    assert request["request_state"] == "COMPLETED"
    assert request["finished_at"] is not None
    assert len(provider.book) == len(set(provider.book)) == 3
    evidence = await rows(
        "SELECT s.to_state FROM qtg.movement_request_nodes n JOIN qtg.movement_node_steps s ON s.id = n.evidence_step_id"
    )
    assert [row["to_state"] for row in evidence] == ["COMPLETED"] * 3
    assert request_id


async def test_a_lost_answer_is_unknown_and_recovery_finds_it(engine, runner, provider, chain_plan, rows) -> None:
    await begin(engine, chain_plan)
    provider.will("submit", "first", TimeoutError("reply lost after execution"))
    await dispatch_ready_nodes(engine, runner)
    [node] = await rows("SELECT node_state, error_code FROM qtg.movement_request_nodes WHERE node_key = 'first'")
    assert node == {"node_state": "UNKNOWN", "error_code": "SUBMIT_RAISED"}
    assert await dispatch_ready_nodes(engine, runner) == 0
    assert await recover_unknown_nodes(engine, runner) == 1
    assert await observe_active_nodes(engine, runner) == 1
    [node] = await rows("SELECT node_state FROM qtg.movement_request_nodes WHERE node_key = 'first'")
    assert node["node_state"] == "COMPLETED"
    assert len(provider.book) == 1
