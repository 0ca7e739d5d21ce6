"""Withdrawals are really paid, once, whatever kills the venue and whenever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import ccxt.async_support as ccxt
import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import ControlRefused, ExchangeControl
from qtg_dagster.sandbox.exchange.crash import CrashPoint
from qtg_dagster.sandbox.exchange.launch import StandIn
from qtg_dagster.sandbox.exchange.server import Serving, serving

Control = Callable[[str], ExchangeControl]
Connect = Callable[..., Any]
Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
NewAddress = Callable[[], str]

ASKED = {"coin": "ETH", "network": "ETH", "amount": "1.5", "withdrawOrderId": "leg1"}
NET = 1_499_000_000_000_000_000
PAYOUT_POINTS = [point for point in CrashPoint if point.startswith(("withdrawal", "payout"))]


async def completed(client: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = await client.sapiGetCapitalWithdrawHistory()
    return rows if rows and all(row["status"] == 6 for row in rows) else []


async def test_a_native_payout_arrives_and_the_row_completes(
    paying_exchange: Serving, connect: Connect, eventually: Eventually, chain: Any, new_address: NewAddress
) -> None:
    client, to = connect(paying_exchange.address), new_address()
    await client.sapiPostCapitalWithdrawApply({**ASKED, "address": to})
    (row,) = await eventually(lambda: completed(client))
    assert chain.balance(to) == NET
    receipt = chain.call("eth_getTransactionReceipt", row["txId"])
    assert (receipt["status"], row["confirmNo"] >= 1, "completeTime" in row) == ("0x1", True, True)


async def test_a_token_payout_arrives_net_of_the_fee_and_the_books_agree(
    paying_exchange: Serving,
    connect: Connect,
    open_control: Control,
    eventually: Eventually,
    chain: Any,
    new_address: NewAddress,
) -> None:
    client, control, to = connect(paying_exchange.address), open_control(paying_exchange.address), new_address()
    await client.sapiPostCapitalWithdrawApply({"coin": "USDC", "address": to, "amount": "250.5"})
    await eventually(lambda: completed(client))
    token = paying_exchange.exchange.config.venues["venue_a"].coins["USDC"].networks["ETH"].contract
    assert chain.token_balance(token, to) == 249_500_000
    assert (await control.balances())["venue_a"]["USDC"] == {"free": "4749.5", "withdrawing": "0", "frozen": "0"}
    kinds = [(move["kind"], move["amount"]) for move in await control.moves() if move["coin"] == "USDC"][1:]
    assert kinds == [("withdrawal_hold", "250.5"), ("withdrawal_paid", "249.5"), ("withdrawal_fee", "1")]


async def test_many_withdrawals_at_once_are_each_paid_once(
    paying_exchange: Serving,
    connect: Connect,
    eventually: Eventually,
    chain: Any,
    new_address: NewAddress,
    hot_wallet: tuple[Path, str],
) -> None:
    client, recipients = connect(paying_exchange.address), [new_address() for _ in range(30)]
    await asyncio.gather(
        *(client.sapiPostCapitalWithdrawApply({**ASKED, "address": to, "amount": "1"}) for to in recipients)
    )
    await eventually(lambda: completed(client))
    assert {chain.balance(to) for to in recipients} == {999_000_000_000_000_000}
    assert chain.sent(hot_wallet[1]) == 30


async def test_payouts_that_wait_for_a_block_together_have_nonces_in_a_row(
    paying_exchange: Serving,
    connect: Connect,
    open_control: Control,
    eventually: Eventually,
    chain: Any,
    new_address: NewAddress,
) -> None:
    client, control = connect(paying_exchange.address), open_control(paying_exchange.address)
    chain.call("evm_setAutomine", False)
    recipients = [new_address() for _ in range(4)]
    for to in recipients:
        await client.sapiPostCapitalWithdrawApply({**ASKED, "address": to})

    async def all_sent() -> bool:
        return all(row["broadcast"] for row in await control.withdrawals("venue_a"))

    assert await eventually(all_sent)
    assert [row["nonce"] for row in await control.withdrawals("venue_a")] == [3, 2, 1, 0]
    chain.mine()
    await eventually(lambda: completed(client))
    assert {chain.balance(to) for to in recipients} == {NET}


async def test_a_paused_venue_accepts_and_pays_when_resumed(
    paying_exchange: Serving,
    connect: Connect,
    open_control: Control,
    eventually: Eventually,
    chain: Any,
    new_address: NewAddress,
) -> None:
    client, control, to = connect(paying_exchange.address), open_control(paying_exchange.address), new_address()
    await control.pause_payouts("venue_a")
    assert (await control.health())["paused"] == ["venue_a"]
    await client.sapiPostCapitalWithdrawApply({**ASKED, "address": to})
    await paying_exchange.exchange.desks["venue_a"].step()
    assert chain.balance(to) == 0
    await control.resume_payouts()
    await eventually(lambda: completed(client))
    assert chain.balance(to) == NET


async def test_an_empty_hot_wallet_leaves_the_withdrawal_pending_until_it_is_filled(
    make_config: Callable[..., ExchangeConfig],
    connect: Connect,
    eventually: Eventually,
    chain: Any,
    new_address: NewAddress,
    hot_wallet: tuple[Path, str],
) -> None:
    token = chain.deploy_token(chain.call("eth_accounts")[0], 10**12)
    async with serving(make_config(chain.url, token=token)) as running:
        client, to = connect(running.address), new_address()
        await client.sapiPostCapitalWithdrawApply({"coin": "USDC", "address": to, "amount": "10"})
        await running.exchange.desks["venue_a"].step()
        (row,) = await client.sapiGetCapitalWithdrawHistory()
        assert (row["status"], row["txId"]) == (2, "")
        chain.fund(hot_wallet[1])
        data = "0xa9059cbb" + hot_wallet[1][2:].lower().rjust(64, "0") + f"{50 * 10**6:064x}"
        await asyncio.to_thread(_send_from_first, chain, token, data)
        await eventually(lambda: completed(client))
        assert chain.token_balance(token, to) == 9 * 10**6


def _send_from_first(chain: Any, token: str, data: str) -> None:
    chain.call("eth_sendTransaction", {"from": chain.call("eth_accounts")[0], "to": token, "data": data})


async def test_a_signed_withdrawal_can_no_longer_be_rejected(
    paying_exchange: Serving,
    connect: Connect,
    open_control: Control,
    eventually: Eventually,
    chain: Any,
    new_address: NewAddress,
) -> None:
    client, control, to = connect(paying_exchange.address), open_control(paying_exchange.address), new_address()
    chain.call("evm_setAutomine", False)
    key = (await client.sapiPostCapitalWithdrawApply({**ASKED, "address": to}))["id"]

    async def signed() -> bool:
        return bool((await control.withdrawals("venue_a"))[0]["tx_hash"])

    await eventually(signed)
    with pytest.raises(ControlRefused, match="409"):
        await control.reject("venue_a", key)
    (row,) = await client.sapiGetCapitalWithdrawHistory()
    assert (row["status"], chain.balance(to)) == (4, 0)
    chain.call("evm_setAutomine", True)
    chain.mine()
    await eventually(lambda: completed(client))
    assert chain.balance(to) == NET


async def test_a_payout_that_reverts_returns_the_funds(
    paying_exchange: Serving, connect: Connect, open_control: Control, eventually: Eventually, chain: Any
) -> None:
    client, control = connect(paying_exchange.address), open_control(paying_exchange.address)
    token = paying_exchange.exchange.config.venues["venue_a"].coins["USDC"].networks["ETH"].contract
    chain.call("evm_setAutomine", False)
    await client.sapiPostCapitalWithdrawApply({"coin": "USDC", "address": "0x" + "cd" * 20, "amount": "10"})

    async def signed() -> bool:
        return bool((await control.withdrawals("venue_a"))[0]["broadcast"])

    await eventually(signed)
    chain.call("anvil_setCode", token, "0x60006000fd")  # from now on the token reverts
    chain.mine()

    async def failed() -> bool:
        return (await client.sapiGetCapitalWithdrawHistory())[0]["status"] == 5

    await eventually(failed)
    assert (await control.balances())["venue_a"]["USDC"]["free"] == "5000"


async def test_a_payout_lost_with_its_block_is_sent_again(
    paying_exchange: Serving, connect: Connect, eventually: Eventually, chain: Any, new_address: NewAddress
) -> None:
    client, to = connect(paying_exchange.address), new_address()
    chain.mine(3)
    await client.sapiPostCapitalWithdrawApply({**ASKED, "address": to})
    await eventually(lambda: completed(client))
    chain.call("anvil_reorg", 1, [])
    assert chain.balance(to) == 0

    async def paid_again() -> bool:
        return bool(chain.balance(to) == NET)

    assert await eventually(paid_again)


@pytest.fixture
def stand_in(
    make_config: Callable[..., ExchangeConfig], chain: Any, hot_wallet: tuple[Path, str], tmp_path: Path
) -> Iterator[StandIn]:
    """The stand-in as a process, not started yet, in front of a real chain."""
    chain.fund(hot_wallet[1])
    make_config(chain.url).save(tmp_path / "exchange.json")
    process = StandIn(tmp_path / "exchange.json")
    yield process
    process.stop()


@pytest.mark.parametrize("point", PAYOUT_POINTS)
async def test_a_venue_killed_at_any_point_of_a_payout_pays_once(
    stand_in: StandIn,
    connect: Connect,
    open_control: Control,
    eventually: Eventually,
    chain: Any,
    new_address: NewAddress,
    hot_wallet: tuple[Path, str],
    point: CrashPoint,
) -> None:
    client, to = connect(stand_in.start({"QTG_EXCHANGE_KILL_AT": point})), new_address()
    try:
        await client.sapiPostCapitalWithdrawApply({**ASKED, "address": to})
    except ccxt.ExchangeNotAvailable:
        assert point is CrashPoint.WITHDRAWAL_RECORDED
    assert await asyncio.to_thread(stand_in.wait) == -9
    stand_in.start()
    (row,) = await eventually(lambda: completed(client))
    assert row["withdrawOrderId"] == "leg1"
    assert (chain.balance(to), chain.sent(hot_wallet[1])) == (NET, 1)
    moves = await open_control(stand_in.address).moves()
    assert [move["kind"] for move in moves if move["coin"] == "ETH"] == [
        "opening",
        "withdrawal_hold",
        "withdrawal_paid",
        "withdrawal_fee",
    ]


async def test_payouts_paused_before_a_kill_stay_paused(
    stand_in: StandIn, connect: Connect, open_control: Control, eventually: Eventually, chain: Any
) -> None:
    client, control = connect(stand_in.start()), open_control(stand_in.address)
    await control.pause_payouts()
    await client.sapiPostCapitalWithdrawApply({**ASKED, "address": "0x" + "cd" * 20})
    stand_in.kill()
    stand_in.start()
    assert (await control.health())["paused"] == ["venue_a"]
    assert (await client.sapiGetCapitalWithdrawHistory())[0]["status"] == 2
    await control.resume_payouts()
    await eventually(lambda: completed(client))
    assert chain.balance("0x" + "cd" * 20) == NET


def test_a_second_process_on_one_ledger_is_refused(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.start()
    with pytest.raises(ConfigurationError, match="in use by another process"):
        StandIn(tmp_path / "exchange.json").start()


def test_a_node_on_another_chain_ends_the_process(
    make_config: Callable[..., ExchangeConfig], chain: Any, tmp_path: Path
) -> None:
    config = make_config(chain.url)
    wrong = config.model_copy(update={"chain": config.chain.model_copy(update={"chain_id": 1})})
    wrong.save(tmp_path / "exchange.json")
    process = StandIn(tmp_path / "exchange.json")
    process.start()
    assert process.wait() == 2
    assert "chain.chain_id is 1, but the node at chain.rpc_url is on 31337" in process.log.read_text()
    process.stop()
