"""A daily limit is kept by the commit of the intent: whoever races for its last unit, only one gets it."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import InvalidInput, NotFound
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.velocity import VelocityLimit
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.adoption import adopt
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import AssetEntry
from qtg_dagster.treasury.limits import clear_velocity_limit, set_velocity_limit
from tests.engine.desk import Desk
from tests.engine.plans import node, plan_of
from tests.engine.provider import answer
from tests.engine.test_ledger import Adopting

S = ResultStatus
TERMS = {"asset": "USDC", "amount": "$param:amount", "chain": "eip155:1", "destination": "0xallowed"}


def transfer() -> Plan:
    return plan_of(node("first", config={**TERMS, "account": "treasury"}), key="transfer")


async def limit(desk: Desk, daily: str) -> VelocityLimit:
    return await set_velocity_limit(desk.engine, "USDC", daily, actor="olivia", reason="a quiet day")


async def left(desk: Desk) -> str:
    [standing] = await desk.engine.store.velocity_limits("sandbox")
    return standing.text(standing.left_units)


async def ends(desk: Desk) -> dict[str, int]:
    """How many nodes stand in each state."""
    found = await desk.rows("SELECT node_state, count(*) AS many FROM qtg.movement_request_nodes GROUP BY 1")
    return {row["node_state"]: row["many"] for row in found}


async def test_of_fifty_that_race_for_the_last_unit_exactly_one_passes(desk: Desk) -> None:
    await limit(desk, "10")
    for _ in range(50):
        await desk.begin(transfer(), parameters={"amount": "10"})
    async with desk.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as other:
        await asyncio.gather(
            dispatch_ready_nodes(desk.engine, desk.runner, 25), dispatch_ready_nodes(desk.engine, other, 25)
        )
    while await desk.dispatch(50):  # whom neither got while both looked
        pass
    assert await ends(desk) == {"SUBMITTED": 1, "FAILED": 49}
    assert sum(method == "submit" for method, _ in desk.provider.calls) == 1
    assert await left(desk) == "0 USDC"
    codes = await desk.rows(
        "SELECT DISTINCT error_code, error_message FROM qtg.movement_request_nodes WHERE node_state = 'FAILED'"
    )
    assert {row["error_code"] for row in codes} == {"RISK_CONTROL_VIOLATED"}
    assert all("today" in row["error_message"] for row in codes)


async def test_one_that_is_over_takes_no_other_down_with_it(desk: Desk) -> None:
    await limit(desk, "25")
    wanted = {
        await desk.begin(transfer(), parameters={"amount": amount}): int(amount) for amount in ("9", "8", "7", "6")
    }
    await desk.dispatch(4)
    found = await desk.rows("SELECT request_id::text AS request_id, node_state FROM qtg.movement_request_nodes")
    spent = sum(wanted[row["request_id"]] for row in found if row["node_state"] == "SUBMITTED")
    over = [wanted[row["request_id"]] for row in found if row["node_state"] == "FAILED"]
    assert len(over) == 1  # whichever came last: it alone did not fit
    assert spent <= 25 < spent + over[0]
    assert await left(desk) == f"{25 - spent} USDC"


async def test_what_provably_did_not_leave_is_given_back(desk: Desk) -> None:
    await limit(desk, "10")
    await desk.begin(transfer(), parameters={"amount": "10"})
    desk.will("submit", "first", answer(S.REJECTED, error_code="NO"))
    await desk.dispatch()
    assert await ends(desk) == {"FAILED": 1}
    assert await left(desk) == "10 USDC"


async def test_what_may_have_left_stays_spent(desk: Desk) -> None:
    await limit(desk, "10")
    await desk.begin(transfer(), parameters={"amount": "10"})
    desk.will("submit", "first", answer(S.UNKNOWN))
    await desk.dispatch()
    assert await ends(desk) == {"UNKNOWN": 1}
    assert await left(desk) == "0 USDC"


async def test_a_limit_that_is_set_later_counts_what_has_left_today(desk: Desk) -> None:
    for _ in range(3):
        await desk.begin(transfer(), parameters={"amount": "10"})
    await desk.dispatch(3)
    assert (await limit(desk, "35")).left_units == 5 * 10**6
    await desk.begin(transfer(), parameters={"amount": "10"})
    await desk.dispatch()
    assert await ends(desk) == {"SUBMITTED": 3, "FAILED": 1}


async def test_what_has_left_already_is_adopted_over_the_limit_and_counts(
    desk: Desk, executors: ExecutorRegistry
) -> None:
    executors.register("exec.local.adopting", Adopting(desk.provider))
    await limit(desk, "10")
    plan = plan_of(node("first", executor="exec.local.adopting", config={**TERMS, "account": "treasury"}))
    request_id = await desk.begin(plan, parameters={"amount": "12"})
    await adopt(desk.engine, request_id, "first", "0xbeef", actor="ada", reason="sent from the wallet")
    assert await ends(desk) == {"SUBMITTED": 1}
    [standing] = await desk.engine.store.velocity_limits("sandbox")
    assert standing.spent_units == 12 * 10**6
    await desk.begin(transfer(), parameters={"amount": "1"})
    await desk.dispatch()
    assert await ends(desk) == {"SUBMITTED": 1, "FAILED": 1}


async def test_a_new_day_begins_with_the_whole_limit(desk: Desk) -> None:
    await limit(desk, "10")
    await desk.begin(transfer(), parameters={"amount": "10"})
    await desk.dispatch()
    await desk.sql("UPDATE qtg.velocity_spends SET day = day - 1")
    assert await left(desk) == "10 USDC"


async def test_without_a_limit_everything_goes(desk: Desk) -> None:
    await limit(desk, "0")
    await clear_velocity_limit(desk.engine, "USDC", actor="olivia", reason="over")
    await desk.begin(transfer(), parameters={"amount": "10"})
    await desk.dispatch()
    assert await ends(desk) == {"SUBMITTED": 1}
    with pytest.raises(NotFound):
        await clear_velocity_limit(desk.engine, "USDC", actor="olivia", reason="again")


@pytest.mark.parametrize(("asset", "daily", "field"), [("NOPE", "1", "asset"), ("USDC", "1e3", "daily")])
async def test_a_limit_that_makes_no_sense_is_refused(desk: Desk, asset: str, daily: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await set_velocity_limit(desk.engine, asset, daily, actor="olivia", reason="why")
    assert refused.value.field == field
    assert await desk.engine.store.velocity_limits("sandbox") == []


async def test_an_asset_goes_by_its_key_whatever_its_symbol(desk: Desk) -> None:
    """Two entries of the inventory may share a symbol: USDC on an exchange and a bridged one, say."""
    bridged = AssetEntry(symbol="USDC", decimals=6)
    object.__setattr__(
        desk.engine,
        "inventory",
        desk.engine.inventory.model_copy(update={"assets": {**desk.engine.inventory.assets, "BRIDGED": bridged}}),
    )
    await set_velocity_limit(desk.engine, "BRIDGED", "10", actor="olivia", reason="new")
    terms = {**TERMS, "asset": "BRIDGED", "account": "treasury"}
    plan = plan_of(node("first", config=terms), key="bridged")
    for _ in range(2):
        await desk.begin(plan, parameters={"amount": "10"})
    await desk.begin(transfer(), parameters={"amount": "10"})
    while await desk.dispatch(3):
        pass
    assert await ends(desk) == {"SUBMITTED": 2, "FAILED": 1}
    [standing] = await desk.engine.store.velocity_limits("sandbox")
    assert (standing.asset, standing.left_units) == ("BRIDGED", 0)


async def test_who_set_a_limit_is_on_record(desk: Desk) -> None:
    await limit(desk, "10")
    [row] = await desk.rows("SELECT * FROM qtg.audit_outbox WHERE subject_type = 'velocity_limit'")
    assert (row["actor"], row["action"], row["details"]["daily"]) == ("olivia", "set_velocity_limit", "10")
