"""Whom a transaction paid, read from a real chain: said only where nothing is left to doubt."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from qtg_dagster.domain.errors import InvalidInput, NotFound
from qtg_dagster.lanes.evm.endpoint import RpcUnavailable
from qtg_dagster.lanes.evm.erc20 import TRANSFER_TOPIC
from qtg_dagster.lanes.evm.payments import Payments
from qtg_dagster.sandbox import contracts

CHAIN = "eip155:31337"
DESTINATION = "0x" + "aB" * 20
STRANGER = "0x" + "66" * 20
HALF = Decimal("0.5")
FINAL = 3  # blocks beside the transaction's own: the node of these tests finalises two behind its head


async def sent(desk: Any, **transaction: Any) -> str:
    receipt = await asyncio.to_thread(desk.faucet.send, **transaction)
    return str(receipt["transactionHash"])


async def minted(desk: Any, recipient: str, units: int = 500_000) -> str:
    data = contracts.call("mint(address,uint256)", ("address", recipient), ("uint256", units))
    return await sent(desk, to=desk.token, data=data)


async def paid_to(desk: Any, tx_hash: str, asset: str = "USDC", amounts: Any = (HALF,), **asked: str) -> str | None:
    fields = {"chain": CHAIN, "destination": DESTINATION, **asked}
    return await Payments(desk.chains).paid_to(asset=asset, tx_hash=tx_hash, amounts=amounts, **fields)


async def test_a_token_payment_is_told_by_its_only_transfer_once_it_is_final(desk: Any) -> None:
    ours, theirs = await minted(desk, DESTINATION.lower()), await minted(desk, STRANGER)
    assert await paid_to(desk, ours) is None, "not final"
    desk.mine(FINAL)
    assert await paid_to(desk, ours) == DESTINATION.lower()
    assert await paid_to(desk, ours.upper().replace("0X", "0x")) == DESTINATION.lower()
    assert await paid_to(desk, theirs) == STRANGER
    assert await paid_to(desk, ours, amounts=(Decimal(7), Decimal("0.50"))) == DESTINATION.lower()
    for amounts in ((Decimal("0.499999"), Decimal("0.5000001"), Decimal(500_000)), ()):
        assert await paid_to(desk, ours, amounts=amounts) is None
    assert await paid_to(desk, ours, asset="ETH") is None, "no coins were moved"
    assert await paid_to(desk, "0x" + "00" * 32) is None, "not mined"


async def test_coins_are_told_by_the_transaction_and_by_nothing_that_a_contract_did_with_them(desk: Any) -> None:
    for address in (contract := "0x" + "77" * 20, wallet := "0x" + "88" * 20):
        desk.faucet.call("anvil_setCode", address, "0x00")  # takes coins, and says nothing of them
    hashes = {to: await sent(desk, to=to, value=5 * 10**17) for to in (DESTINATION.lower(), STRANGER, contract, wallet)}
    assert await paid_to(desk, hashes[wallet], "ETH", destination=wallet) is None, "not final"
    desk.mine(FINAL)
    assert await paid_to(desk, hashes[DESTINATION.lower()], "ETH") == DESTINATION.lower()
    assert await paid_to(desk, hashes[STRANGER], "ETH") == STRANGER
    assert await paid_to(desk, hashes[contract], "ETH") is None, "it may have passed them on"
    assert await paid_to(desk, hashes[wallet], "ETH", destination=wallet) == wallet
    assert await paid_to(desk, hashes[STRANGER], "ETH", (Decimal("0.4"),)) is None
    assert await paid_to(desk, hashes[STRANGER]) is None, "no token was moved"
    created = await sent(desk, to=None, data="0x00")
    desk.mine(FINAL)
    assert await paid_to(desk, created, "ETH", (Decimal(0),)) is None


def receipt_with(**fields: Any) -> Any:
    return lambda answer: {**answer, "result": {**answer["result"], **fields}}


async def test_a_receipt_that_leaves_a_doubt_is_none(desk: Any) -> None:
    tx_hash = await minted(desk, DESTINATION.lower())
    desk.mine(FINAL)
    logs = desk.faucet.call("eth_getTransactionReceipt", tx_hash)["logs"]
    (log,) = (each for each in logs if each["topics"][0] == TRANSFER_TOPIC)
    signature, source, recipient = log["topics"]
    other = {**log, "address": "0x" + "99" * 20}
    said = {
        "two transfers": {"logs": [log, log]},
        "another party's beside it": {"logs": [log, {**log, "topics": [signature, source, source]}]},
        "one of nothing beside it": {"logs": [log, {**log, "data": "0x" + "00" * 32}]},
        "unindexed": {"logs": [{**log, "topics": [signature]}]},
        "one too many": {"logs": [{**log, "topics": [*log["topics"], recipient]}]},
        "taken back": {"logs": [{**log, "removed": True}]},
        "another token": {"logs": [other]},
        "nothing": {"logs": []},
        "reverted": {"status": "0x0"},
        "odd": {"status": "0x2"},
        "none": {"status": None},
        "of another block": {"blockHash": "0x" + "11" * 32},
        "not final yet": {"blockNumber": hex(10**6)},
    }
    for name, fields in said.items():
        desk.proxy.rewrite["eth_getTransactionReceipt"] = receipt_with(**fields)
        assert await paid_to(desk, tx_hash) is None, name
    desk.proxy.rewrite["eth_getTransactionReceipt"] = receipt_with(logs=[other, log])
    assert await paid_to(desk, tx_hash) == DESTINATION.lower(), "another token's log says nothing of this one"
    unreadable = (
        {"topics": [signature, source, "0x"]},
        {"topics": [signature, source, "0x" + "ff" * 32]},
        {"data": "0x"},
    )
    for change in unreadable:
        desk.proxy.rewrite["eth_getTransactionReceipt"] = receipt_with(logs=[{**log, **change}])
        with pytest.raises(RpcUnavailable):
            await paid_to(desk, tx_hash)


async def test_what_cannot_be_read_is_raised(desk: Any) -> None:
    tx_hash = await sent(desk, to=DESTINATION.lower(), value=5 * 10**17)
    desk.mine(FINAL)
    with pytest.raises(NotFound):
        await paid_to(desk, tx_hash, chain="eip155:1")
    for change in ({"blockHash": "0x" + "11" * 32}, {"hash": "0x" + "11" * 32}, {"value": "much"}, {"to": "0x1"}):
        desk.proxy.rewrite["eth_getTransactionByHash"] = receipt_with(**change)
        with pytest.raises(RpcUnavailable):
            await paid_to(desk, tx_hash, "ETH")
    desk.proxy.rewrite["eth_getTransactionByHash"] = lambda answer: {**answer, "result": None}
    assert await paid_to(desk, tx_hash, "ETH") is None
    desk.proxy.rewrite.clear()
    assert await paid_to(desk, tx_hash, "ETH") == DESTINATION.lower()
    for method in ("eth_getTransactionReceipt", "eth_getBlockByNumber", "eth_getTransactionByHash"):
        desk.proxy.http_error = {method: (503, {})}
        with pytest.raises(RpcUnavailable):
            await paid_to(desk, tx_hash, "ETH")


async def test_an_asset_that_is_not_on_the_chain_is_refused(desk: Any) -> None:
    assets = {**desk.inventory.assets, "XYZ": desk.inventory.assets["USDC"]}
    desk.chains.inventory = desk.inventory.model_copy(update={"assets": assets})
    for asset, problem in (("XYZ", "XYZ is not on"), ("DOGE", "unknown asset")):
        with pytest.raises(InvalidInput, match=problem):
            await paid_to(desk, "0x" + "11" * 32, asset)
