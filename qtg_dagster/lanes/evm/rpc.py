"""Talking to one chain through its endpoints: the right chain, reads with fall-back, heights that only rise."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from qtg_dagster.domain.amounts import Asset
from qtg_dagster.domain.chains import ChainId
from qtg_dagster.domain.errors import ConfigurationError, QtgError
from qtg_dagster.inventory import ChainEntry, Inventory
from qtg_dagster.lanes.evm.endpoint import Endpoint, RpcRefused, RpcUnavailable, reading

HEALTH_SECONDS = 4.0  # well under what the health worker waits for all chains together


class WrongChain(ConfigurationError):
    """An endpoint serves another chain than the inventory says."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block's place and moment; `timestamp` in Unix seconds, `base_fee` in wei."""

    number: int
    hash: str
    timestamp: int
    base_fee: int


class ChainRpc:
    """One chain. Every endpoint's `eth_chainId` is checked before its first answer is believed."""

    def __init__(self, key: str, entry: ChainEntry, native: Asset) -> None:
        self.key = key
        self.entry = entry
        self.native = native
        self.chain_id = ChainId(key).evm_id
        self._endpoints = tuple(Endpoint(url) for url in entry.rpc_urls)
        self._verified: set[int] = set()
        self._head = 0
        self._final = 0

    async def verify_chain_id(self) -> None:
        """Ask every endpoint which chain it serves; raises `WrongChain`, or `RpcUnavailable` when none answers."""
        answers = await asyncio.gather(
            *(self._verify(index, again=True) for index in range(len(self._endpoints))), return_exceptions=True
        )
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        for failure in failures:
            if not isinstance(failure, RpcUnavailable):
                raise failure
        if len(failures) == len(answers):
            raise failures[0]

    async def heights(self, seconds: float) -> tuple[int | QtgError, ...]:
        """Each endpoint's height, or why it gives none as the right chain; all asked at once, `seconds` for each."""
        return tuple(await asyncio.gather(*(self._height_at(index, seconds) for index in range(len(self._endpoints)))))

    async def ask(self, method: str, *params: Any) -> Any:
        """The answer of the first endpoint that gives one; raises `RpcRefused` or the last `RpcUnavailable`."""
        failure: RpcUnavailable | None = None
        for index, endpoint in enumerate(self._endpoints):
            try:
                await self._verify(index)
                return await endpoint.ask(method, params)
            except RpcUnavailable as error:
                failure = error
        assert failure is not None  # noqa: S101 - the inventory demands at least one endpoint
        raise failure

    async def ask_all(self, method: str, *params: Any) -> list[Any]:
        """What each endpoint answers; raises when one does not: half a survey proves no absence."""

        async def one(index: int, endpoint: Endpoint) -> Any:
            await self._verify(index)
            return await endpoint.ask(method, params)

        return list(await asyncio.gather(*(one(index, endpoint) for index, endpoint in enumerate(self._endpoints))))

    async def broadcast(self, signed: str) -> str:
        """Hand signed bytes to the first endpoint, once; raises `RpcUnavailable` or `RpcRefused`."""
        await self._verify(0)
        return str(await self._endpoints[0].send_raw(signed))

    async def height(self) -> int:
        """The highest block number ever seen: an endpoint that lags takes nothing back."""
        self._head = max(self._head, await self.quantity("eth_blockNumber"))
        return self._head

    async def final_height(self) -> int:
        """The highest block that counts as final, by depth or by the chain's own `finalized` tag."""
        depth = self.entry.finality_confirmations
        if depth is not None:
            self._final = max(self._final, await self.height() - depth + 1)
        else:
            block = await self.block("finalized")
            self._final = max(self._final, block.number if block else 0)
        return self._final

    async def block(self, which: int | str) -> Block | None:
        """A block by number or tag; None when the endpoint has none there."""
        raw = await self.ask("eth_getBlockByNumber", hex(which) if isinstance(which, int) else which, False)
        if raw is None:
            return None
        with reading(self.key, f"block {which}"):
            return Block(
                number=int(raw["number"], 16),
                hash=str(raw["hash"]).lower(),
                timestamp=int(raw["timestamp"], 16),
                base_fee=int(raw.get("baseFeePerGas") or "0x0", 16),
            )

    async def quantity(self, method: str, *params: Any) -> int:
        """An answer that is a hex number; raises `RpcUnavailable` for any other."""
        answer = await self.ask(method, *params)
        with reading(self.key, f"the answer to {method}"):
            return int(answer, 16)

    async def quantities(self, method: str, *params: Any) -> list[int]:
        """Every endpoint's answer, all of them hex numbers; raises as `ask_all` and `quantity` do."""
        answers = await self.ask_all(method, *params)
        with reading(self.key, f"an answer to {method}"):
            return [int(answer, 16) for answer in answers]

    async def close(self) -> None:
        """Close this event loop's connections."""
        await asyncio.gather(*(endpoint.close() for endpoint in self._endpoints))

    async def _height_at(self, index: int, seconds: float) -> int | QtgError:
        endpoint = self._endpoints[index]
        await endpoint.open()
        try:
            async with asyncio.timeout(seconds):
                await self._verify(index, again=True)
                answer = await endpoint.ask("eth_blockNumber", ())
            with reading(endpoint.host, "the answer to eth_blockNumber"):
                return int(answer, 16)
        except TimeoutError:
            return RpcUnavailable(endpoint.host, f"no answer within {seconds:g} s")
        except (RpcUnavailable, RpcRefused, WrongChain) as error:
            return error

    async def _verify(self, index: int, *, again: bool = False) -> None:
        if index in self._verified and not again:
            return
        endpoint = self._endpoints[index]
        try:
            served = int(await endpoint.ask("eth_chainId", ()), 16)
        except (RpcRefused, TypeError, ValueError):
            raise RpcUnavailable(endpoint.host, "gives no chain id") from None
        if served != self.chain_id:
            self._verified.discard(index)
            raise WrongChain(
                f"chains.{self.key}.rpc_urls: {endpoint.host} serves eip155:{served}; remove it or mend the address"
            )
        self._verified.add(index)


class Chains:
    """The chains of the inventory, one `ChainRpc` each, shared by the lane's executors.

    `health_seconds` is how long a health check waits for an endpoint.
    """

    def __init__(self, inventory: Inventory, *, health_seconds: float = HEALTH_SECONDS) -> None:
        self.inventory = inventory
        self.health_seconds = health_seconds
        self._chains = {
            key: ChainRpc(key, entry, inventory.asset(entry.native_asset)) for key, entry in inventory.chains.items()
        }

    def __getitem__(self, key: str) -> ChainRpc:
        self.inventory.chain(key)
        return self._chains[key]

    def all(self) -> tuple[ChainRpc, ...]:
        return tuple(self._chains.values())

    async def close(self) -> None:
        """Close this event loop's connections."""
        await asyncio.gather(*(chain.close() for chain in self._chains.values()))
