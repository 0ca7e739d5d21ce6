"""What Gate's wire has that no other has: whole seconds, thirty days at most, DONE without a block, keys cut short."""

from __future__ import annotations

import time
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from tests.sandbox.exchange.dialects.drive_gate import DRIVER
from tests.sandbox.exchange.dialects.driver import Order

DAY = 86_400
GOOD = {
    "currency": "ETH",
    "chain": "ETH",
    "amount": "1.5",
    "address": Order().address,
    "withdraw_order_id": "leg_1.a-b",
}


@pytest.fixture
async def gate(open_venue: Any) -> Any:
    return await open_venue(DRIVER)


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({"chain": ""}, "MISSING_REQUIRED_PARAM"),
        ({"chain": "ERC20"}, "INVALID_PARAM_VALUE"),
        ({"withdraw_order_id": "leg 1"}, "INVALID_PARAM_VALUE"),
        ({"withdraw_order_id": "x" * 33}, "INVALID_PARAM_VALUE"),
        ({"memo": "7"}, "INVALID_PARAM_VALUE"),
        ({"amount": 1.5}, "INVALID_PARAM_VALUE"),
        ({"amount": "0.001"}, "AMOUNT_TOO_LITTLE"),
    ],
)
async def test_a_withdrawal_is_refused_by_what_is_wrong_with_it(gate: Any, change: dict[str, Any], label: str) -> None:
    client = gate.connect()
    with pytest.raises(ccxt.BaseError, match=f'"label": "{label}"'):
        await client.privateWithdrawalsPostWithdrawals(GOOD | change)
    assert await gate.executed() == []
    accepted = await client.privateWithdrawalsPostWithdrawals(GOOD)
    assert (accepted["withdraw_order_id"], accepted["amount"], accepted["status"]) == ("leg_1.a-b", "1.5", "REQUEST")
    assert accepted["id"].startswith("w")


async def test_rows_show_what_was_asked_for_and_the_fee_in_it(gate: Any) -> None:
    client = gate.connect()
    await client.privateWithdrawalsPostWithdrawals(GOOD)
    (row,) = await client.privateWalletGetWithdrawals({"withdraw_order_id": "leg_1.a-b"})
    assert (row["amount"], row["fee"], row["chain"]) == ("1.500", "0.001", "ETH")
    assert [made["net"] for made in await gate.executed()] == ["1.499"]


async def test_done_without_a_block_is_not_mined_yet(gate: Any) -> None:
    client = gate.connect()
    key = (await client.privateWithdrawalsPostWithdrawals(GOOD))["id"]
    blocks = {}
    for status in ("processing", "completed"):
        await gate.control.show_status("venue_a", "withdrawals", key, status)
        (row,) = await client.privateWalletGetWithdrawals()
        assert row["status"] == "DONE"
        blocks[status] = int(row["block_number"])
    assert blocks["processing"] == 0 < blocks["completed"]


async def test_without_bounds_a_week_is_shown_and_never_more_than_thirty_days(gate: Any) -> None:
    client, now = gate.connect(), int(time.time())
    (old,) = await gate.control.add_rows("venue_a", "withdrawals", 1, newest_ms=(now - 8 * DAY) * 1000)
    assert await client.privateWalletGetWithdrawals() == []
    bounds = {"from": str(now - 29 * DAY), "to": str(now + DAY)}
    assert [row["id"] for row in await client.privateWalletGetWithdrawals(bounds)] == [old]
    for wrong in ({"from": str(now - 30 * DAY), "to": str(now + 1)}, {"from": str(now), "to": str(now - 1)}):
        with pytest.raises(ccxt.BadRequest, match="30 days"):
            await client.privateWalletGetWithdrawals(wrong)
        with pytest.raises(ccxt.BadRequest, match="30 days"):
            await client.privateWalletGetDeposits(wrong)
    (one,) = await client.privateWalletGetWithdrawals({"withdraw_id": old})
    assert one["id"] == old


async def test_both_ends_of_a_window_are_whole_seconds_and_belong_to_it(gate: Any) -> None:
    client, now = gate.connect(), int(time.time()) - 60
    (key,) = await gate.control.add_rows("venue_a", "deposits", 1, newest_ms=now * 1000 + 999)
    for start, end, found in ((now, now, [key]), (now - 9, now - 1, []), (now + 1, now + 9, [])):
        rows = await client.privateWalletGetDeposits({"from": str(start), "to": str(end)})
        assert [row["id"] for row in rows] == found


@pytest.mark.parametrize(
    ("header", "value", "label"),
    [
        ("KEY", "", "MISSING_REQUIRED_HEADER"),
        ("SIGN", "", "MISSING_REQUIRED_HEADER"),
        ("Timestamp", "", "MISSING_REQUIRED_HEADER"),
        ("KEY", "another-key", "INVALID_KEY"),
        ("SIGN", "00" * 64, "INVALID_SIGNATURE"),
        ("Timestamp", "yesterday", "REQUEST_EXPIRED"),
        ("Timestamp", "1577836800", "REQUEST_EXPIRED"),
    ],
)
async def test_a_header_is_refused_by_its_own_label(gate: Any, header: str, value: str, label: str) -> None:
    signed = ccxt.gate(dict(DRIVER.settings)).sign("accounts", ["private", "spot"], "GET", {"currency": "ETH"})
    async with httpx.AsyncClient(base_url=f"{gate.running.address}/venue_a", trust_env=False) as http:
        path = signed["url"].partition(".ws")[2]
        assert (await http.get(path, headers=signed["headers"])).json()[0]["currency"] == "ETH"
        refused = await http.get(path, headers={**signed["headers"], header: value})
        assert (refused.status_code, refused.json()["label"]) == (401, label)
        widened = await http.get(path.replace("=ETH", "=USDC"), headers=signed["headers"])
        assert widened.json()["label"] == "INVALID_SIGNATURE"


async def test_what_is_signed_of_a_query_is_its_unescaped_text(gate: Any) -> None:
    assert await gate.connect().privateWalletGetWithdrawals({"withdraw_order_id": "a b&c"}) == []


async def test_a_body_that_is_no_object_is_refused(gate: Any) -> None:
    client = gate.connect()
    client.json = lambda _: "[1]"
    with pytest.raises(ccxt.BadRequest, match="INVALID_REQUEST_BODY"):
        await client.privateWithdrawalsPostWithdrawals(GOOD)


async def test_keys_are_named_by_how_they_begin(gate: Any) -> None:
    (key,) = await gate.connect().privateAccountGetMainKeys()
    assert (key["key"], key["state"]) == ("key-of-t*****", 1)
