"""A movement from approval to its end, step by step, judged by the provider's book and the stored rows."""

from __future__ import annotations

from tests.engine.desk import Desk
from tests.engine.plans import chain


async def test_three_nodes_run_one_after_another_to_completed(desk: Desk) -> None:
    await desk.begin(chain())
    for _ in range(3):
        assert await desk.dispatch() == 1
        assert await desk.observe() == 1
    [request] = await desk.rows("SELECT request_state, finished_at FROM qtg.movement_requests")
    assert request["request_state"] == "COMPLETED"
    assert request["finished_at"] is not None
    assert len(desk.provider.book) == len(set(desk.provider.book)) == 3
    evidence = await desk.rows(
        "SELECT s.to_state FROM qtg.movement_request_nodes n "
        "JOIN qtg.movement_node_steps s ON s.id = n.evidence_step_id"
    )
    assert [row["to_state"] for row in evidence] == ["COMPLETED"] * 3


async def test_a_lost_answer_is_unknown_and_recovery_finds_it(desk: Desk) -> None:
    await desk.begin(chain())
    desk.will("submit", "first", TimeoutError("reply lost after execution"))
    await desk.dispatch()
    [node] = await desk.rows("SELECT node_state, error_code FROM qtg.movement_request_nodes WHERE node_key = 'first'")
    assert node == {"node_state": "UNKNOWN", "error_code": "SUBMIT_RAISED"}
    assert await desk.dispatch() == 0
    assert await desk.recover() == 1
    assert await desk.observe() == 1
    [node] = await desk.rows("SELECT node_state FROM qtg.movement_request_nodes WHERE node_key = 'first'")
    assert node["node_state"] == "COMPLETED"
    assert len(desk.provider.book) == 1
