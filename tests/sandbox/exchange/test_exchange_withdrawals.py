"""What a venue accepts and refuses, and how its history tells of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import ccxt.async_support as ccxt
import pytest

from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import ControlRefused, ExchangeControl
from qtg_dagster.sandbox.exchange.server import Serving, serving

TO = "0x" + "cd" * 20
DAY = 86_400_000
GOOD = {"coin": "ETH", "network": "ETH", "address": TO, "amount": "1.5"}

Control = Callable[[str], ExchangeControl]
Connect = Callable[..., Any]


async def test_a_withdrawal_holds_the_gross_amount_and_shows_net_and_fee(
    paper_exchange: Serving, connect: Connect, open_control: Control
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    before = datetime.now(UTC).replace(microsecond=0)
    accepted = await client.sapiPostCapitalWithdrawApply({**GOOD, "withdrawOrderId": "leg1"})
    (row,) = await client.sapiGetCapitalWithdrawHistory({"withdrawOrderId": "leg1"})
    assert (row["id"], row["amount"], row["transactionFee"]) == (accepted["id"], "1.49900000", "0.001")
    assert (row["status"], row["txId"], row["network"]) == (2, "", "ETH")
    applied = datetime.strptime(row["applyTime"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert before <= applied <= datetime.now(UTC)
    held = (await control.balances())["venue_a"]["ETH"]
    assert held == {"free": "98.5", "withdrawing": "1.5", "frozen": "0"}
    (asset,) = await client.sapiV3PostAssetGetUserAsset({"asset": "ETH"})
    assert (asset["free"], asset["withdrawing"], asset["locked"]) == ("98.5", "1.5", "0")
    (spot, _) = (await client.privateGetAccount())["balances"]
    assert (spot["free"], spot["locked"]) == ("98.50000000", "1.50000000")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"coin": None}, -1102),
        ({"address": None}, -1102),
        ({"amount": None}, -1102),
        ({"coin": "DOGE"}, -4018),
        ({"network": "FOO"}, -4019),
        ({"address": "0x1234"}, -4007),
        ({"address": "0xAbcdefabcdefabcdefabcdefabcdefabcdefabcd"}, -4007),
        ({"addressTag": "7"}, -4106),
        ({"amount": "1e-7"}, -1100),
        ({"amount": "-1"}, -1100),
        ({"amount": "0"}, -4022),
        ({"amount": "0.009"}, -4022),
        ({"amount": "0.000001"}, -4021),
        ({"amount": "1.0000000000000000001"}, -4021),
        ({"amount": "50.1"}, -4023),
        ({"walletType": "1"}, -4026),
    ],
)
async def test_a_refusal_names_its_code_and_moves_nothing(
    paper_exchange: Serving,
    connect: Connect,
    open_control: Control,
    change: dict[str, str | None],
    code: int,
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    parameters = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(ccxt.BaseError, match=f'"code": {code}'):
        await client.sapiPostCapitalWithdrawApply(parameters)
    assert await control.withdrawals("venue_a") == []
    assert [move["kind"] for move in await control.moves()] == ["opening", "opening"]


async def test_more_than_the_free_balance_is_refused(paper_exchange: Serving, connect: Connect) -> None:
    client = connect(paper_exchange.address)
    for _ in range(2):
        await client.sapiPostCapitalWithdrawApply({**GOOD, "amount": "50"})
    with pytest.raises(ccxt.BaseError, match='"code": -4026'):
        await client.sapiPostCapitalWithdrawApply({**GOOD, "amount": "0.01"})


async def test_the_network_may_be_left_out_and_is_the_default_then(paper_exchange: Serving, connect: Connect) -> None:
    client = connect(paper_exchange.address)
    await client.sapiPostCapitalWithdrawApply({"coin": "USDC", "address": TO, "amount": "10"})
    (row,) = await client.sapiGetCapitalWithdrawHistory()
    assert (row["coin"], row["network"], row["amount"]) == ("USDC", "ETH", "9.00000000")


async def test_a_closed_network_is_shown_and_refused(
    paper_exchange: Serving, connect: Connect, open_control: Control
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    await control.set_conditions("venue_a", withdraw_disabled=["ETH/ETH"])
    shown = {coin["coin"]: coin["networkList"][0] for coin in await client.sapiGetCapitalConfigGetall()}
    assert (shown["ETH"]["withdrawEnable"], shown["USDC"]["withdrawEnable"]) == (False, True)
    assert "Suspended" in shown["ETH"]["withdrawDesc"]
    with pytest.raises(ccxt.BaseError, match='"code": -4019'):
        await client.sapiPostCapitalWithdrawApply(GOOD)


async def test_a_key_without_the_right_reads_but_does_not_withdraw(
    paper_exchange: Serving, connect: Connect, open_control: Control
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    await control.set_conditions("venue_a", key_withdraws=False)
    assert (await client.sapiGetAccountApiRestrictions())["enableWithdrawals"] is False
    with pytest.raises(ccxt.BaseError, match='"code": -2015'):
        await client.sapiPostCapitalWithdrawApply(GOOD)
    await control.reset_conditions("venue_a")
    assert (await client.sapiPostCapitalWithdrawApply(GOOD))["id"]


async def test_a_withdrawal_under_the_travel_rule_is_refused_here(
    paper_exchange: Serving, connect: Connect, open_control: Control
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    await control.set_conditions("venue_a", travel_rule=True)
    with pytest.raises(ccxt.BaseError, match='"code": -4104'):
        await client.sapiPostCapitalWithdrawApply(GOOD)
    assert await control.withdrawals("venue_a") == []


async def test_maintenance_is_announced_and_refuses_signed_calls(
    paper_exchange: Serving, connect: Connect, open_control: Control
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    await control.set_conditions("venue_a", maintenance=True)
    assert (await client.sapiGetSystemStatus())["status"] == 1
    with pytest.raises(ccxt.BaseError, match='"code": -1016'):
        await client.sapiPostCapitalWithdrawApply(GOOD)
    assert await control.withdrawals("venue_a") == []


@pytest.mark.parametrize(("policy", "rows"), [("accept", 2), ("return_first", 1), ("refuse", 1)])
async def test_a_repeated_order_id_is_treated_as_configured(
    make_config: Callable[..., ExchangeConfig], connect: Connect, policy: str, rows: int
) -> None:
    async with serving(make_config(duplicate_order_ids=policy)) as running:
        client = connect(running.address)
        first = await client.sapiPostCapitalWithdrawApply({**GOOD, "withdrawOrderId": "leg1"})
        if policy == "refuse":
            with pytest.raises(ccxt.BaseError, match='"code": -4067'):
                await client.sapiPostCapitalWithdrawApply({**GOOD, "withdrawOrderId": "leg1"})
        else:
            second = await client.sapiPostCapitalWithdrawApply({**GOOD, "withdrawOrderId": "leg1"})
            assert (second["id"] == first["id"]) is (policy == "return_first")
        assert len(await client.sapiGetCapitalWithdrawHistory({"withdrawOrderId": "leg1"})) == rows


async def test_an_address_off_the_whitelist_is_refused(
    make_config: Callable[..., ExchangeConfig], connect: Connect
) -> None:
    async with serving(make_config(address_whitelist=["0x" + "ef" * 20])) as running:
        with pytest.raises(ccxt.BaseError, match='"code": -4035'):
            await connect(running.address).sapiPostCapitalWithdrawApply(GOOD)


@pytest.mark.parametrize(
    ("window", "refused"),
    [
        ({"startTime": -91 * DAY, "endTime": 0}, True),
        ({"startTime": -91 * DAY}, True),
        ({"startTime": -90 * DAY, "endTime": 0}, False),
        ({"withdrawOrderId": "leg1", "startTime": -8 * DAY, "endTime": 0}, True),
        ({"withdrawOrderId": "leg1", "startTime": -7 * DAY, "endTime": 0}, False),
        ({"startTime": 5_000, "endTime": 0}, True),
        ({"limit": 1001}, True),
        ({"idList": ",".join(str(number) for number in range(46))}, True),
    ],
)
async def test_history_windows_and_pages_have_limits(
    paper_exchange: Serving, connect: Connect, window: dict[str, Any], refused: bool
) -> None:
    now = int(time.time() * 1000)
    asked = {name: value + now if name.endswith("Time") else value for name, value in window.items()}
    client = connect(paper_exchange.address)
    if refused:
        with pytest.raises(ccxt.BaseError, match=r'"code": -(4047|1102)'):
            await client.sapiGetCapitalWithdrawHistory(asked)
    else:
        assert await client.sapiGetCapitalWithdrawHistory(asked) == []


async def test_history_filters_and_pages(paper_exchange: Serving, connect: Connect) -> None:
    client = connect(paper_exchange.address)
    ids = [
        (await client.sapiPostCapitalWithdrawApply({**GOOD, "withdrawOrderId": f"leg{number}"}))["id"]
        for number in range(5)
    ]
    newest_first = ids[::-1]
    assert [row["id"] for row in await client.sapiGetCapitalWithdrawHistory()] == newest_first
    pages = [await client.sapiGetCapitalWithdrawHistory({"limit": 2, "offset": offset}) for offset in (0, 2, 4)]
    assert [row["id"] for page in pages for row in page] == newest_first
    chosen = await client.sapiGetCapitalWithdrawHistory({"idList": f"{ids[1]},{ids[3]}"})
    assert [row["id"] for row in chosen] == [ids[3], ids[1]]
    assert await client.sapiGetCapitalWithdrawHistory({"coin": "USDC"}) == []
    assert await client.sapiGetCapitalWithdrawHistory({"status": 6}) == []
    assert len(await client.sapiGetCapitalWithdrawHistory({"status": 2})) == 5
    old = {"startTime": int(time.time() * 1000) - 2 * DAY, "endTime": int(time.time() * 1000) - DAY}
    assert await client.sapiGetCapitalWithdrawHistory({"withdrawOrderId": "leg1", **old}) == []


async def test_a_row_may_lag_behind_its_acceptance(
    paper_exchange: Serving, connect: Connect, open_control: Control
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    await control.set_conditions("venue_a", lag_history_seconds=3600)
    await client.sapiPostCapitalWithdrawApply({**GOOD, "withdrawOrderId": "leg1"})
    assert await client.sapiGetCapitalWithdrawHistory({"withdrawOrderId": "leg1"}) == []
    await control.set_conditions("venue_a", lag_history_seconds=0, empty_history_times=2)
    looked = [len(await client.sapiGetCapitalWithdrawHistory({"withdrawOrderId": "leg1"})) for _ in range(4)]
    assert looked == [0, 0, 1, 1]


async def test_history_may_be_told_to_show_something_else(
    paper_exchange: Serving, connect: Connect, open_control: Control
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    key = (await client.sapiPostCapitalWithdrawApply(GOOD))["id"]
    await control.show_instead("venue_a", key, status=6, txId="Off-chain transfer 123", transferType=1)
    (row,) = await client.sapiGetCapitalWithdrawHistory()
    assert (row["status"], row["txId"], row["transferType"]) == (6, "Off-chain transfer 123", 1)
    await control.show_instead("venue_a", key)
    (row,) = await client.sapiGetCapitalWithdrawHistory()
    assert (row["status"], row["txId"]) == (2, "")


async def test_a_rejected_withdrawal_returns_its_funds_once(
    paper_exchange: Serving, connect: Connect, open_control: Control
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    key = (await client.sapiPostCapitalWithdrawApply(GOOD))["id"]
    await control.reject("venue_a", key, status=3, info="Address not valid")
    (row,) = await client.sapiGetCapitalWithdrawHistory()
    assert (row["status"], row["info"]) == (3, "Address not valid")
    assert (await control.balances())["venue_a"]["ETH"]["free"] == "100"
    with pytest.raises(ControlRefused, match="409"):
        await control.reject("venue_a", key)
    with pytest.raises(ControlRefused, match="404"):
        await control.reject("venue_a", "nonsense")
    assert [move["kind"] for move in await control.moves()][2:] == ["withdrawal_hold", "withdrawal_return"]
