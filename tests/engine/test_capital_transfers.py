"""A request without a template becomes one movement by its route, or is refused with nothing stored."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from qtg_dagster.domain.capital_transfers import TransferState
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound, RiskControlViolated
from qtg_dagster.engine.requests import approve_movement, publish_template
from qtg_dagster.treasury.transfer_decisions import cancel_capital_transfer
from tests.engine.desk import Desk
from tests.engine.plans import LIMITS, chain, node, plan_of
from tests.engine.transfers import (
    AUDITED,
    audited,
    follow,
    movements,
    request,
    stored_only,
    take_route,
    transfer,
)

KEYED = {"idempotency_key": "margin 7"}


@pytest.fixture
async def desk(desk: Desk) -> Desk:
    take_route(desk)
    await publish_template(desk.engine, chain())
    return desk


async def test_a_request_becomes_a_movement_that_waits_for_somebody_else(desk: Desk) -> None:
    receipt = await request(desk.engine)
    [movement] = await desk.rows(
        "SELECT id::text AS id, request_state, requested_by, reason, input_params, idempotency_key "
        "FROM qtg.movement_requests"
    )
    assert receipt.state is TransferState.MOVING
    assert receipt.movement_id == movement["id"]
    assert movement["request_state"] == "PENDING_APPROVAL"
    assert movement["input_params"] == {"amount": "250.5"}
    assert movement["idempotency_key"] == f"capital-transfer:{receipt.transfer_id}:1"
    assert movement["reason"] == f"capital transfer {receipt.transfer_id}: margin"
    with pytest.raises(Conflict):
        await approve_movement(desk.engine, movement["id"], actor="ada")
    [asked, begun] = await desk.rows(AUDITED)
    assert (asked["action"], asked["actor"]) == ("request_capital_transfer", "ada")
    assert asked["details"]["from"] == "account:treasury"
    assert (begun["action"], begun["details"]["movement_request_id"]) == ("begin_capital_transfer", movement["id"])


async def test_a_transfer_settles_when_its_movement_has_completed(desk: Desk) -> None:
    receipt = await request(desk.engine)
    await approve_movement(desk.engine, str(receipt.movement_id), actor="grace")
    for _ in range(3):
        await desk.dispatch()
        await desk.make_due()
        assert (await follow(desk)).changed == 0
        await desk.observe()
    done = await follow(desk)
    found = await transfer(desk, receipt.transfer_id)
    assert (dict(done.changes), found.state) == ({"settled": 1}, TransferState.SETTLED)
    assert found.finished_at is not None
    assert await audited(desk) == ["request", "begin", "settle"]
    assert (await follow(desk)).looked_at == 0


async def test_one_key_is_one_transfer_also_when_its_route_is_gone(desk: Desk) -> None:
    first = await request(desk.engine, **KEYED)
    take_route(desk, to="treasury", **{"from": "vault"})
    again = await request(desk.engine, **KEYED)
    assert again == first.model_copy(update={"created": False})
    with pytest.raises(Conflict, match=f"belongs to capital transfer {first.transfer_id}"):
        await request(desk.engine, amount="1", **KEYED)
    assert len(await movements(desk)) == 1


async def test_many_who_ask_under_one_key_at_once_make_one_movement(desk: Desk) -> None:
    receipts = await asyncio.gather(*(request(desk.engine, **KEYED) for _ in range(5)))
    assert len({receipt.transfer_id for receipt in receipts}) == 1
    assert sorted(receipt.created for receipt in receipts) == [False] * 4 + [True]
    assert len({receipt.movement_id for receipt in receipts}) == 1
    assert len(await movements(desk)) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"destination": "treasury", "source": "vault"}, "USDC account:treasury -> account:vault"),
        ({"source": "kraken"}, "source: 'kraken' is no venue and no account"),
        ({"source": "venue:treasury"}, "source: 'venue:treasury' is no venue"),
        ({"asset": "DOGE"}, "asset: unknown asset 'DOGE'"),
        ({"amount": "1e3"}, "amount: '1e3' is not a plain decimal"),
        ({"amount": "0.0000001"}, "amount: .* more decimals"),
        ({"amount": "0"}, "amount: is nothing"),
        ({"wanted_by": "2020-01-01T00:00:00Z"}, "wanted_by: .* has passed"),
        ({"wanted_by": "2090-01-01T00:00:00"}, "wanted_by"),
        ({"reason": "\x00"}, "reason: holds a NUL"),
        ({"requested_by": ""}, "requested_by"),
        ({"amount": "1000.000001"}, "hard cap|cap"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_field_and_nothing_is_stored(
    desk: Desk, values: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        await request(desk.engine, **values)
    assert await desk.rows("SELECT 1 FROM qtg.capital_transfer_requests") == []
    assert await desk.rows("SELECT 1 FROM qtg.audit_outbox WHERE action = 'request_capital_transfer'") == []


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ({"template_key": "missing"}, r"routes\.way\.template_key: there is no template 'missing'"),
        ({"template_version": 7}, r"routes\.way\.template_key: there is no template 'chain version 7'"),
        ({"amount": "sum"}, r"routes\.way\.amount: template chain has no parameter 'sum'"),
        ({"parameters": {"note": "x"}}, r"routes\.way\.parameters\.note"),
        ({"bindings": {"nobody": "signer.local.desk"}}, r"bindings\.nobody"),
    ],
)
async def test_a_route_that_its_template_does_not_fit_is_named_at_first_use(
    desk: Desk, route: dict[str, object], said: str
) -> None:
    take_route(desk, **route)
    with pytest.raises(InvalidInput, match=said):
        await request(desk.engine)


async def test_a_template_that_goes_elsewhere_than_the_route_says_is_refused(desk: Desk) -> None:
    elsewhere = plan_of(
        node("first", config={"asset": "USDC", "amount": "$param:amount", "destination": "0xother"}),
        key="chain",
        risk_controls=LIMITS.model_copy(update={"destination_allowlist": ("0xother",)}),
    )
    await publish_template(desk.engine, elsewhere)
    with pytest.raises(InvalidInput, match=r"routes\.way\.to: template chain brings it to 0xother"):
        await request(desk.engine)


async def test_within_a_caller_s_own_transaction_it_stands_or_falls_with_it(desk: Desk) -> None:
    async with desk.engine.database.transaction() as tx:
        await request(desk.engine, tx)
        await tx.rollback()
    assert await desk.rows("SELECT 1 FROM qtg.capital_transfer_requests") == []
    transfer_id = await stored_only(desk)
    assert (await transfer(desk, transfer_id)).state is TransferState.REQUESTED
    assert await movements(desk) == []
    assert dict((await follow(desk)).changes) == {"begun": 1}
    assert (await transfer(desk, transfer_id)).state is TransferState.MOVING


async def test_a_snapshot_that_is_too_old_to_see_the_transfer_is_told_so(desk: Desk) -> None:
    async with desk.engine.database.session() as session:
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        await session.execute(text("SELECT count(*) FROM qtg.capital_transfer_requests"))
        await request(desk.engine, **KEYED)
        with pytest.raises(Conflict, match="has just stored a capital transfer under this idempotency_key"):
            await request(desk.engine, session, **KEYED)
        await session.rollback()
    assert len(await movements(desk)) == 1


async def test_asking_again_begins_what_nobody_came_to_begin(desk: Desk) -> None:
    transfer_id = await stored_only(desk, **KEYED)
    again = await request(desk.engine, **KEYED)
    assert (again.transfer_id, again.created, again.state) == (transfer_id, False, TransferState.MOVING)
    assert [row["id"] for row in await movements(desk)] == [again.movement_id]


async def test_the_version_that_was_looked_at_is_the_one_that_moves(desk: Desk) -> None:
    tighter = chain().model_copy(update={"risk_controls": LIMITS.model_copy(update={"hard_cap": "1"})})
    await publish_template(desk.engine, tighter)
    with pytest.raises(RiskControlViolated):
        await request(desk.engine)
    take_route(desk, template_version=1)
    receipt = await request(desk.engine)
    [row] = await desk.rows(
        "SELECT v.version FROM qtg.movement_requests r JOIN qtg.movement_plan_versions v ON v.id = r.plan_version_id"
    )
    assert (receipt.state, row["version"]) == (TransferState.MOVING, 1)


async def test_an_asset_whose_decimals_changed_is_not_moved(desk: Desk) -> None:
    transfer_id = await stored_only(desk)
    usdc = desk.engine.inventory.assets["USDC"].model_copy(update={"decimals": 18})
    changed = desk.engine.inventory.model_copy(update={"assets": {"USDC": usdc}})
    desk.engine = replace(desk.engine, inventory=changed)
    assert dict((await follow(desk)).changes) == {"begun": 1}
    found = await transfer(desk, transfer_id)
    assert found.state is TransferState.NEEDS_ATTENTION
    assert "assets.USDC.decimals" in (found.attention or "")
    assert await movements(desk) == []


async def test_a_time_to_come_is_kept(desk: Desk) -> None:
    wanted = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    found = await transfer(desk, (await request(desk.engine, wanted_by=wanted.isoformat())).transfer_id)
    assert (found.wanted_by, found.overdue, str(found)) == (
        wanted,
        False,
        "250.5 USDC account:treasury -> account:vault",
    )


async def test_who_is_not_there_cannot_be_decided_on(desk: Desk) -> None:
    for name in ("not-an-id", "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(NotFound, match=name):
            await cancel_capital_transfer(desk.engine, name, actor="grace", reason="r")
