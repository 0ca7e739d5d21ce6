"""EVM lane: transfers of native coins and ERC-20 tokens, and looking at what arrived."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.evm.arrivals import Arrivals
from qtg_dagster.lanes.evm.balances import ChainBalances
from qtg_dagster.lanes.evm.finality_observe import FinalityObserve
from qtg_dagster.lanes.evm.nonce_chain import EvmNonces
from qtg_dagster.lanes.evm.nonces import NonceLedger
from qtg_dagster.lanes.evm.payments import Payments
from qtg_dagster.lanes.evm.receive_observe import ReceiveObserve
from qtg_dagster.lanes.evm.rpc import HEALTH_SECONDS, Chains
from qtg_dagster.lanes.evm.transfer import Transfer

__all__ = ["EvmLane", "NonceLedger", "register"]


@dataclass(frozen=True, slots=True)
class EvmLane:
    """What the lane leaves with whoever registered it."""

    chains: Chains
    balance_fetchers: tuple[ChainBalances, ...]
    nonce_chain: EvmNonces
    payments: Payments
    arrivals: Arrivals

    async def close(self) -> None:
        """Close the running event loop's connections."""
        await self.chains.close()


def register(
    executors: ExecutorRegistry,
    inventory: Inventory,
    nonces: NonceLedger,
    *,
    health_seconds: float = HEALTH_SECONDS,
) -> EvmLane:
    """Put the lane's executors into the registry; reads nothing from any chain yet.

    `health_seconds` is how long a health check waits for an endpoint; all endpoints are asked at once.
    """
    chains = Chains(inventory, health_seconds=health_seconds)
    executors.register("exec.evm.transfer", Transfer(chains, nonces))
    executors.register("exec.evm.receive_observe", ReceiveObserve(chains))
    executors.register("exec.evm.finality_observe", FinalityObserve(chains))
    return EvmLane(
        chains=chains,
        balance_fetchers=tuple(ChainBalances(chains, key) for key in inventory.chains),
        nonce_chain=EvmNonces(chains),
        payments=Payments(chains),
        arrivals=Arrivals(chains),
    )
