"""The receiver of a movement's callbacks is judged before anything is stored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qtg_dagster.domain.errors import Conflict, InvalidInput
from qtg_dagster.engine import receivers
from qtg_dagster.engine.requests import create_movement
from tests.callbacks.post import Resolved
from tests.engine.desk import Desk
from tests.engine.plans import node, order_of, plan_of

PLAN = plan_of(node("first"))


@pytest.fixture
def resolved(desk: Desk) -> Resolved:
    made = Resolved({"hooks.example.com": ["93.184.216.34"]})
    desk.engine = replace(desk.engine, resolver=made)
    return made


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://user@hooks.example.com/",
        "https://hooks.example.com:25/",
        "https://0x7f.1/",
    ],
)
async def test_a_url_that_may_not_be_called_is_refused_without_a_look_up(
    desk: Desk, resolved: Resolved, url: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await desk.create(PLAN, callback_url=url)
    assert refused.value.field == "callback_url"
    assert resolved.asked == []
    assert await desk.rows("SELECT 1 FROM qtg.movement_requests") == []


@pytest.mark.parametrize(
    ("addresses", "problem"),
    [(["10.0.0.1"], "leads to 10.0.0.1"), (["93.184.216.34", "::1"], "leads to ::1"), ([], "no address")],
)
async def test_a_name_that_leads_inside_is_refused(
    desk: Desk, resolved: Resolved, addresses: list[str], problem: str
) -> None:
    resolved.names["hooks.example.com"] = addresses
    with pytest.raises(InvalidInput, match=problem):
        await desk.create(PLAN, callback_url="https://hooks.example.com/")
    assert await desk.rows("SELECT 1 FROM qtg.movement_requests") == []


async def test_a_name_that_cannot_be_resolved_is_refused(desk: Desk, resolved: Resolved) -> None:
    with pytest.raises(InvalidInput, match="cannot be resolved"):
        await desk.create(PLAN, callback_url="https://nowhere.example.com/")


async def test_a_resolver_that_hangs_is_not_waited_for(
    desk: Desk, resolved: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers, "_PATIENCE_SECONDS", 0.05)
    resolved.silent = True
    with pytest.raises(InvalidInput, match=r"not resolved within 0\.05 s"):
        await desk.create(PLAN, callback_url="https://hooks.example.com/")


async def test_the_url_is_stored_in_its_one_spelling(desk: Desk, resolved: Resolved) -> None:
    await desk.begin(PLAN, callback_url="https://Hooks.Example.com:443")
    [row] = await desk.rows("SELECT callback_url FROM qtg.movement_requests")
    assert row["callback_url"] == "https://hooks.example.com/"
    assert [(each["callback_url"], each["receiver"]) for each in await desk.callbacks()] == [
        ("https://hooks.example.com/", "hooks.example.com")
    ]


async def test_what_stands_under_a_key_stands_without_a_look_up(desk: Desk, resolved: Resolved) -> None:
    wanted = {"callback_url": "https://hooks.example.com/", "idempotency_key": "k"}
    request_id = await desk.create(PLAN, **wanted)
    resolved.names.clear()
    desk.under(callback_ports="8443")
    resolved.asked.clear()
    order = order_of(PLAN, **wanted)
    again = await create_movement(desk.engine, order)
    assert (again.request_id, again.created, resolved.asked) == (request_id, False, [])
    with pytest.raises(Conflict):
        await create_movement(desk.engine, order.model_copy(update={"callback_url": "https://other.example.com/"}))


async def test_nothing_is_looked_up_within_the_callers_transaction(desk: Desk, resolved: Resolved) -> None:
    await desk.create(PLAN)
    order = order_of(PLAN, callback_url="https://nowhere.example.com/")
    async with desk.engine.database.transaction() as transaction:
        receipt = await create_movement(desk.engine, order, transaction)
    assert receipt.created
    assert resolved.asked == []
    inside = order.model_copy(update={"callback_url": "https://127.0.0.1/"})
    with pytest.raises(InvalidInput, match="not a public address"):
        async with desk.engine.database.transaction() as transaction:
            await create_movement(desk.engine, inside, transaction)


async def test_the_operators_own_hosts_are_not_looked_up(desk: Desk, resolved: Resolved) -> None:
    desk.under(callback_allowed_hosts="receiver:9000")
    assert await desk.create(PLAN, callback_url="http://receiver:9000/hook")
    assert resolved.asked == []
