"""Deposits are credited once each, after enough blocks, through restarts and reorganisations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.exchange.crash import CrashPoint
from qtg_dagster.sandbox.exchange.launch import StandIn
from qtg_dagster.sandbox.exchange.server import Serving, serving

Control = Callable[[str], ExchangeControl]
Connect = Callable[..., Any]
Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
ETHER = 10**18


def deposit_address(config: ExchangeConfig) -> str:
    return config.venues["venue_a"].coins["ETH"].networks["ETH"].deposit_address


def shown(client: Any, count: int, status: int) -> Callable[[], Awaitable[list[dict[str, Any]]]]:
    """Asks for the deposits once there are `count`, all in `status`."""

    async def look() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = await client.sapiGetCapitalDepositHisrec()
        return rows if len(rows) == count and all(row["status"] == status for row in rows) else []

    return look


async def test_a_native_deposit_is_credited_with_its_transaction(
    paying_exchange: Serving, connect: Connect, eventually: Eventually, chain: Any
) -> None:
    client, to = connect(paying_exchange.address), deposit_address(paying_exchange.exchange.config)
    receipt = chain.send(to=to, value=hex(2 * ETHER))
    (row,) = await eventually(shown(client, 1, 1))
    assert (row["amount"], row["coin"], row["address"]) == ("2.00000000", "ETH", to)
    assert (row["txId"], row["confirmTimes"]) == (receipt["transactionHash"], "1/1")
    (by_tx,) = await client.sapiGetCapitalDepositHisrec({"txId": receipt["transactionHash"]})
    assert by_tx["id"] == row["id"]
    assert await client.sapiGetCapitalDepositHisrec({"txId": "0x" + "00" * 32}) == []
    (asset,) = await client.sapiV3PostAssetGetUserAsset({"asset": "ETH"})
    assert asset["free"] == "102"


async def test_a_withdrawal_to_our_own_deposit_address_comes_back_as_a_token_deposit(
    paying_exchange: Serving, connect: Connect, open_control: Control, eventually: Eventually
) -> None:
    client, control = connect(paying_exchange.address), open_control(paying_exchange.address)
    to = deposit_address(paying_exchange.exchange.config)
    await client.sapiPostCapitalWithdrawApply({"coin": "USDC", "address": to, "amount": "101"})
    (row,) = await eventually(shown(client, 1, 1))
    assert (row["coin"], row["amount"]) == ("USDC", "100.00000000")

    async def settled() -> bool:
        own = (await control.balances())["venue_a"]["USDC"]
        return own == {"free": "4999", "withdrawing": "0", "frozen": "0"}

    assert await eventually(settled)


async def test_transfers_to_strangers_and_of_nothing_are_no_deposits(
    paying_exchange: Serving, connect: Connect, eventually: Eventually, chain: Any, new_address: Callable[[], str]
) -> None:
    client, to = connect(paying_exchange.address), deposit_address(paying_exchange.exchange.config)
    chain.send(to=new_address(), value=hex(ETHER))
    chain.send(to=to, value="0x0")
    unlisted = chain.deploy_token(to, 10**9)  # mints to our address: a Transfer log of a token we do not list
    assert chain.token_balance(unlisted, to) == 10**9
    chain.send(to=to, value=hex(ETHER))
    (row,) = await eventually(shown(client, 1, 1))
    assert row["amount"] == "1.00000000"


async def test_a_deposit_is_pending_then_credited_but_locked_then_usable(
    make_config: Callable[..., ExchangeConfig],
    connect: Connect,
    open_control: Control,
    eventually: Eventually,
    chain: Any,
) -> None:
    config = make_config(chain.url, network={"confirmations": 3, "unlock_confirmations": 5})
    async with serving(config) as running:
        client, control = connect(running.address), open_control(running.address)
        chain.send(to=deposit_address(config), value=hex(2 * ETHER))

        async def counted() -> bool:
            rows = await client.sapiGetCapitalDepositHisrec()
            return [(row["status"], row["confirmTimes"], row["unlockConfirm"]) for row in rows] == [(0, "1/3", 5)]

        assert await eventually(counted)
        assert (await control.balances())["venue_a"]["ETH"]["free"] == "100"
        chain.mine(2)
        await eventually(shown(client, 1, 6))
        assert (await control.balances())["venue_a"]["ETH"] == {"free": "100", "withdrawing": "0", "frozen": "2"}
        chain.mine(2)
        await eventually(shown(client, 1, 1))
        assert (await control.balances())["venue_a"]["ETH"] == {"free": "102", "withdrawing": "0", "frozen": "0"}


async def test_a_closed_deposit_network_credits_when_it_opens(
    paying_exchange: Serving, connect: Connect, open_control: Control, eventually: Eventually, chain: Any
) -> None:
    client, control = connect(paying_exchange.address), open_control(paying_exchange.address)
    await control.set_conditions("venue_a", deposit_disabled=["ETH/ETH"])
    chain.send(to=deposit_address(paying_exchange.exchange.config), value=hex(ETHER))
    await eventually(shown(client, 1, 0))
    await control.reset_conditions("venue_a")
    await eventually(shown(client, 1, 1))


async def test_two_transfers_in_one_block_are_two_deposits(
    paying_exchange: Serving, connect: Connect, eventually: Eventually, chain: Any
) -> None:
    client, to = connect(paying_exchange.address), deposit_address(paying_exchange.exchange.config)
    chain.call("evm_setAutomine", False)
    for account in chain.call("eth_accounts")[:2]:
        chain.call("eth_sendTransaction", {"from": account, "to": to, "value": hex(ETHER)})
    chain.mine()
    rows = await eventually(shown(client, 2, 1))
    assert len({row["txId"] for row in rows}) == 2


async def test_two_transfers_in_one_transaction_are_two_deposits(
    paying_exchange: Serving, connect: Connect, open_control: Control, eventually: Eventually, chain: Any
) -> None:
    client, control = connect(paying_exchange.address), open_control(paying_exchange.address)
    venue = paying_exchange.exchange.config.venues["venue_a"]
    token, to = venue.coins["USDC"].networks["ETH"].contract, deposit_address(paying_exchange.exchange.config)
    payer = chain.next_contract()
    await client.sapiPostCapitalWithdrawApply({"coin": "USDC", "address": payer, "amount": "13"})

    async def funded() -> bool:
        return bool(chain.token_balance(token, payer) == 12 * 10**6)

    assert await eventually(funded)
    receipt = chain.send(data=two_transfers(token, to, 5 * 10**6, 7 * 10**6), gas=hex(500_000))
    assert receipt["contractAddress"].lower() == payer
    rows = await eventually(shown(client, 2, 1))
    assert {row["txId"] for row in rows} == {receipt["transactionHash"]}
    assert sorted(row["amount"] for row in rows) == ["5.00000000", "7.00000000"]
    assert (await control.balances())["venue_a"]["USDC"]["free"] == "4999"


def two_transfers(token: str, to: str, *amounts: int) -> str:
    """Creation code that sends the new contract's tokens on, once per amount, and leaves nothing behind."""
    code = ""
    for amount in amounts:
        data = ("a9059cbb" + to[2:].rjust(64, "0") + f"{amount:064x}").ljust(192, "0")
        for word in range(3):
            code += "7f" + data[word * 64 : word * 64 + 64] + "60" + f"{word * 32:02x}" + "52"  # PUSH32 PUSH1 MSTORE
        code += "60006000604460006000" + "73" + token[2:] + "5af150"  # CALL(gas, token, 0, 0, 68, 0, 0) POP
    return "0x" + code + "00"


async def test_an_unconfirmed_deposit_goes_with_its_block_and_comes_with_the_next(
    make_config: Callable[..., ExchangeConfig], connect: Connect, eventually: Eventually, chain: Any
) -> None:
    config = make_config(chain.url, network={"confirmations": 4})
    async with serving(config) as running:
        client, to = connect(running.address), deposit_address(config)
        chain.mine(3)
        chain.send(to=to, value=hex(ETHER))
        await eventually(shown(client, 1, 0))
        chain.call("anvil_reorg", 1, [])

        async def gone() -> bool:
            return await client.sapiGetCapitalDepositHisrec() == []

        assert await eventually(gone)
        chain.send(to=to, value=hex(3 * ETHER))
        chain.mine(3)
        (row,) = await eventually(shown(client, 1, 1))
        assert row["amount"] == "3.00000000"


async def test_a_deposit_is_not_credited_on_the_word_of_another_block(
    make_config: Callable[..., ExchangeConfig], connect: Connect, eventually: Eventually, chain: Any
) -> None:
    config = make_config(chain.url, network={"confirmations": 3})
    async with serving(config) as running:
        client, ledger = connect(running.address), running.exchange.ledger
        chain.send(to=deposit_address(config), value=hex(ETHER))
        await eventually(shown(client, 1, 0))
        with ledger.transaction():
            ledger.write("UPDATE deposits SET block_hash = ?", ("0x" + "11" * 32,))
        chain.mine(5)
        await running.exchange._watcher.step()
        (row,) = await client.sapiGetCapitalDepositHisrec()
        assert row["status"] == 0


async def test_a_credited_deposit_that_moves_to_another_block_is_not_credited_again(
    paying_exchange: Serving, connect: Connect, open_control: Control, eventually: Eventually, chain: Any
) -> None:
    client, control = connect(paying_exchange.address), open_control(paying_exchange.address)
    chain.mine(3)
    receipt = chain.send(to=deposit_address(paying_exchange.exchange.config), value=hex(2 * ETHER))
    await eventually(shown(client, 1, 1))
    raw = chain.call("eth_getRawTransactionByHash", receipt["transactionHash"])
    chain.call("anvil_reorg", 2, [[raw, 1]])
    moved = chain.call("eth_getTransactionReceipt", receipt["transactionHash"])
    assert moved["blockHash"] != receipt["blockHash"]
    chain.send(to=deposit_address(paying_exchange.exchange.config), value=hex(ETHER))
    await eventually(shown(client, 2, 1))
    assert (await control.balances())["venue_a"]["ETH"]["free"] == "103"


async def test_a_chain_rolled_back_far_below_the_cursor_is_scanned_again(
    paying_exchange: Serving, connect: Connect, eventually: Eventually, chain: Any
) -> None:
    client, to = connect(paying_exchange.address), deposit_address(paying_exchange.exchange.config)
    chain.mine(200)

    async def scanned() -> bool:
        return int(paying_exchange.exchange.ledger.meta("scan_next") or 0) > 200

    assert await eventually(scanned)
    chain.call("anvil_rollback", 190)
    chain.send(to=to, value=hex(ETHER))
    (row,) = await eventually(shown(client, 1, 1))
    assert row["amount"] == "1.00000000"


@pytest.mark.parametrize("point", [CrashPoint.DEPOSIT_SEEN, CrashPoint.DEPOSIT_CREDITED])
async def test_a_venue_killed_around_a_deposit_credits_it_once(
    make_config: Callable[..., ExchangeConfig],
    connect: Connect,
    open_control: Control,
    eventually: Eventually,
    chain: Any,
    tmp_path: Path,
    point: CrashPoint,
) -> None:
    config = make_config(chain.url)
    config.save(tmp_path / "exchange.json")
    chain.send(to=deposit_address(config), value=hex(2 * ETHER))
    stand_in = StandIn(tmp_path / "exchange.json")
    try:
        stand_in.start({"QTG_EXCHANGE_KILL_AT": point})
        assert await asyncio.to_thread(stand_in.wait) == -9
        client = connect(stand_in.start())
        await eventually(shown(client, 1, 1))
        control = open_control(stand_in.address)
        credited = [move for move in await control.moves() if move["kind"] == "deposit_credit"]
        assert [move["amount"] for move in credited] == ["2"]
        assert (await control.balances())["venue_a"]["ETH"]["free"] == "102"
    finally:
        stand_in.stop()
