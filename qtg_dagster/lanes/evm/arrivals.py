"""What came to an address since a moment, for those who would conclude something from nothing having come."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.chains import evm_address
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.lanes.evm import erc20
from qtg_dagster.lanes.evm.endpoint import RpcRefused, RpcUnavailable, reading
from qtg_dagster.lanes.evm.rpc import ChainRpc, Chains
from qtg_dagster.lanes.evm.terms import asset_on_chain

_CLOCKS_DIFFER = timedelta(minutes=1)
#: A chain whose newest block is older says nothing of the time since.
_STALE_SECONDS = 600
_BLOCKS_AT_ONCE = 2_000
_FEWEST_AT_ONCE = 50
#: More than a day of any chain's blocks: what is asked about is younger.
_MOST_BLOCKS = 500_000


class Arrivals:
    """Answers for every chain of the inventory, from all of its endpoints: half a survey proves no absence."""

    def __init__(self, chains: Chains) -> None:
        self._chains = chains

    async def arrived(self, *, chain: str, asset: str, destination: str, since: datetime) -> tuple[str, ...]:
        """Amounts of the asset, plain decimals, that came to the address since, final or not; nothing of nothing.

        Tokens are told by Transfer logs. Coins are told by the balance, as one amount, while the address has neither
        code nor sent anything itself. Raises `Conflict` where that tells nothing, `NotFound` or `InvalidInput` for a
        chain or an asset that the inventory does not have, and what endpoints raise.
        """
        rpc = self._chains[chain]
        moved, address = asset_on_chain(self._chains.inventory, chain, asset), evm_address(destination)
        head = await _fresh_head(rpc)
        first = await _first_block_since(rpc, since - _CLOCKS_DIFFER, head)
        if moved.token is None:
            units = [await _coins(rpc, address, first, head)]
        else:
            units = await _tokens(rpc, moved.token, address, first, head)
        return tuple(Amount(moved.asset, each).to_text() for each in units if each)


async def _fresh_head(rpc: ChainRpc) -> int:
    head = await rpc.height()
    block = await rpc.block(head)
    age = None if block is None else time.time() - block.timestamp
    if age is None or age > _STALE_SECONDS:
        told = "is not there" if age is None else f"is {age:.0f} s old"
        raise RpcUnavailable(rpc.key, f"its newest block {told}: nothing can be said of the time since")
    return head


async def _first_block_since(rpc: ChainRpc, moment: datetime, head: int) -> int:
    """The first block that is not older than the moment: back in growing steps, then by halves."""
    late, early, step = head + 1, head, 64
    while early > 0 and await _timestamp(rpc, early) >= moment.timestamp():
        late, early, step = early, max(0, early - step), step * 2
        if head - early > _MOST_BLOCKS:
            raise RpcUnavailable(rpc.key, f"more than {_MOST_BLOCKS} blocks since {moment:%Y-%m-%d %H:%M}")
    while late - early > 1:
        middle = (early + late) // 2
        if await _timestamp(rpc, middle) >= moment.timestamp():
            late = middle
        else:
            early = middle
    return early if early == 0 else late


async def _timestamp(rpc: ChainRpc, number: int) -> int:
    block = await rpc.block(number)
    if block is None:
        raise RpcUnavailable(rpc.key, f"has no block {number}")
    return block.timestamp


async def _tokens(rpc: ChainRpc, token: str, address: str, first: int, head: int) -> list[int]:
    """Each Transfer to the address once, whichever endpoint tells of it."""
    found: dict[tuple[str, str], int] = {}
    start, at_once = first, _BLOCKS_AT_ONCE
    while start <= head:
        end = min(head, start + at_once - 1)
        asked = {
            "address": token,
            "fromBlock": hex(start),
            "toBlock": hex(end),
            "topics": [erc20.TRANSFER_TOPIC, None, "0x" + address.removeprefix("0x").rjust(64, "0")],
        }
        try:
            answers = await rpc.ask_all("eth_getLogs", asked)
        except RpcRefused:
            if at_once <= _FEWEST_AT_ONCE:
                raise
            at_once //= 4  # endpoints differ in how many blocks they look through
            continue
        with reading(rpc.key, "its Transfer logs"):
            for log in (log for answer in answers for log in answer):
                found[_place(log)] = int(log["data"], 16)
        start = end + 1
    return list(found.values())


def _place(log: Mapping[str, Any]) -> tuple[str, str]:
    return str(log["transactionHash"]).lower(), str(log["logIndex"]).lower()


async def _coins(rpc: ChainRpc, address: str, first: int, head: int) -> int:
    """How much the balance grew, whoever sent it: contracts leave no log of coins that they pay."""
    if await rpc.ask("eth_getCode", address, hex(head)) != "0x":
        raise Conflict(f"{address} has code on {rpc.key}: its balance does not tell what came in")
    before, now = hex(max(first - 1, 0)), hex(head)
    sent = [await rpc.quantity("eth_getTransactionCount", address, at) for at in (before, now)]
    held = await rpc.quantity("eth_getBalance", address, before)
    holds = max(await rpc.quantities("eth_getBalance", address, now))
    if sent[0] != sent[1] or holds < held:
        raise Conflict(f"{address} sent something itself on {rpc.key} since: its balance does not tell what came in")
    return holds - held
