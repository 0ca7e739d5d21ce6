"""Balances of all our accounts on one chain, all read at one block."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.balances import BalanceReading
from qtg_dagster.domain.clock import Clock, SystemClock
from qtg_dagster.lanes.evm import erc20
from qtg_dagster.lanes.evm.endpoint import RpcUnavailable
from qtg_dagster.lanes.evm.rpc import ChainRpc, Chains
from qtg_dagster.lanes.evm.terms import AssetOnChain, asset_on_chain


class ChainBalances:
    """A `BalanceFetcher` for one chain: the native coin and every token, for every account of the inventory."""

    def __init__(self, chains: Chains, chain: str, clock: Clock | None = None) -> None:
        self._chains = chains
        self._chain = chain
        self._clock = clock or SystemClock()

    @property
    def venue_key(self) -> str:
        return self._chain

    @property
    def paying_wallet(self) -> str:
        """An account of a chain is one wallet."""
        return "main"

    async def fetch(self) -> tuple[BalanceReading, ...]:
        """All balances at the latest block; raises what the endpoints raise."""
        rpc = self._chains[self._chain]
        started = self._clock.now()
        block = await rpc.block("latest")
        if block is None:
            raise RpcUnavailable(self._chain, "has no latest block")
        wanted = [(address, asset) for address in self._addresses() for asset in self._assets()]
        units = await asyncio.gather(*(_units(rpc, address, asset, block.number) for address, asset in wanted))
        ended = self._clock.now()
        return tuple(
            BalanceReading(
                venue_key=self._chain,
                account=address,
                asset=asset.key,
                free=Amount(asset.asset, amount).to_text(),
                request_started_at=started,
                request_ended_at=ended,
                source_time=datetime.fromtimestamp(block.timestamp, UTC),
                source_height=block.number,
            )
            for (address, asset), amount in zip(wanted, units, strict=True)
        )

    def _addresses(self) -> list[str]:
        accounts = self._chains.inventory.accounts.values()
        return sorted({account.address for account in accounts if account.chain == self._chain})

    def _assets(self) -> list[AssetOnChain]:
        inventory = self._chains.inventory
        entry = inventory.chain(self._chain)
        return [asset_on_chain(inventory, self._chain, key) for key in (entry.native_asset, *sorted(entry.tokens))]


async def _units(rpc: ChainRpc, address: str, asset: AssetOnChain, block: int) -> int:
    if asset.token is None:
        return await rpc.quantity("eth_getBalance", address, hex(block))
    return await rpc.quantity("eth_call", {"to": asset.token, "data": erc20.balance_call(address)}, hex(block))
