"""The database itself refuses a second movement beside one that may have moved money, raw SQL included."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from qtg_dagster.domain.capital_transfers import Attention, TransferState
from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.engine.requests import approve_movement, cancel_movement, publish_template, reject_movement
from qtg_dagster.treasury.transfer_decisions import cancel_capital_transfer, retry_capital_transfer
from tests.engine.desk import Desk
from tests.engine.plans import chain, create
from tests.engine.transfers import follow, movements, request, take_route, transfer

WHO = {"actor": "grace", "reason": "r"}
SECOND = """
    INSERT INTO qtg.capital_transfer_attempts (transfer_id, attempt_no, movement_request_id, route, template_key)
    SELECT id, attempt_no, CAST(:movement AS uuid), 'way', 'chain' FROM qtg.capital_transfer_requests
"""
AGAIN = """
    UPDATE qtg.capital_transfer_requests
    SET transfer_state = 'REQUESTED', attempt_no = attempt_no + 1, attention_kind = NULL, attention = NULL,
        attention_since = NULL
"""


@pytest.fixture
async def desk(desk: Desk) -> Desk:
    take_route(desk)
    await publish_template(desk.engine, chain())
    return desk


async def second(desk: Desk) -> None:
    """Whoever has the password makes another attempt of the only transfer by hand."""
    other = await create(desk.engine, chain())
    await desk.sql(AGAIN)
    await desk.sql(SECOND, movement=other)


async def refused(desk: Desk, because: str) -> None:
    with pytest.raises(DBAPIError, match=because):
        await second(desk)


async def test_beside_one_that_waits_runs_or_is_unknown_there_is_no_second(desk: Desk) -> None:
    receipt = await request(desk.engine)
    may = f"movement {receipt.movement_id} may have moved money, or still may"
    await refused(desk, may)  # waits for approval
    await approve_movement(desk.engine, str(receipt.movement_id), actor="grace")
    await refused(desk, may)
    desk.will("submit", "first", ResultStatus.UNKNOWN)
    await desk.dispatch()
    await refused(desk, may)


async def test_beside_one_that_failed_there_is_none_before_it_is_cancelled(desk: Desk) -> None:
    receipt = await request(desk.engine)
    await approve_movement(desk.engine, str(receipt.movement_id), actor="grace")
    desk.will("submit", "first", ResultStatus.REJECTED)
    await desk.dispatch()
    await refused(desk, "still may")
    await cancel_movement(desk.engine, str(receipt.movement_id), actor="grace", reason="r")
    await second(desk)


async def test_beside_one_that_was_cancelled_half_way_there_is_none_at_all(desk: Desk) -> None:
    receipt = await request(desk.engine)
    await approve_movement(desk.engine, str(receipt.movement_id), actor="grace")
    desk.will("submit", "last", ResultStatus.REJECTED)
    for _ in range(3):
        await desk.dispatch()
        await desk.make_due()
        await desk.observe()
    await cancel_movement(desk.engine, str(receipt.movement_id), actor="grace", reason="r")
    await refused(desk, "may have moved money")


async def test_an_attempt_is_the_present_one_and_its_movement_exists(desk: Desk) -> None:
    receipt = await request(desk.engine)
    await reject_movement(desk.engine, str(receipt.movement_id), actor="grace", reason="r")
    with pytest.raises(DBAPIError, match="there is no movement"):
        await desk.sql(SECOND, movement="00000000-0000-0000-0000-000000000000")
    other = await create(desk.engine, chain())
    with pytest.raises(DBAPIError, match="is not the present one"):
        await desk.sql(SECOND.replace("attempt_no, CAST", "attempt_no + 1, CAST"), movement=other)
    await desk.sql(AGAIN)
    with pytest.raises(DBAPIError, match="uq_capital_transfer_attempts_movement_request_id"):
        await desk.sql(SECOND, movement=receipt.movement_id)


async def test_what_the_database_refuses_is_shown_to_a_person(desk: Desk) -> None:
    """Should the engine ever take a movement for ended that is not, this is where it stops."""
    receipt = await request(desk.engine)
    await desk.sql(AGAIN)
    await follow(desk)
    shown = await transfer(desk, receipt.transfer_id)
    assert (shown.state, shown.attention_kind) == (TransferState.NEEDS_ATTENTION, Attention.NOT_BEGUN)
    assert f"movement {receipt.movement_id} may have moved money, or still may" in str(shown.attention)
    assert len(await movements(desk)) == 1
    with pytest.raises(Conflict, match="is PENDING_APPROVAL and may still do it"):
        await retry_capital_transfer(desk.engine, receipt.transfer_id, **WHO)
    await cancel_capital_transfer(desk.engine, receipt.transfer_id, **WHO)
    assert [row["state"] for row in await movements(desk)] == ["CANCELLED"]
