"""The venue's own view of the chain: plain JSON-RPC, no library in between."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx

from qtg_dagster.domain.errors import ConfigurationError

TRANSFER_TOPIC = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


class ChainUnreachable(Exception):
    """No usable answer from the node; whatever was asked may or may not have happened."""


class ChainRefused(Exception):
    """The node answered with a JSON-RPC error."""


class ChainClient:
    """One node. Every call raises `ChainUnreachable` or `ChainRefused`, nothing is retried."""

    def __init__(self, url: str, chain_id: int) -> None:
        self._url = url
        self._chain_id = chain_id
        self._verified = False
        self._ids = count(1)
        self._http = httpx.AsyncClient(timeout=10, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def verify(self) -> None:
        """Raise `ConfigurationError` when the node is on another chain than configured."""
        if not self._verified:
            found = int(await self.call("eth_chainId"), 16)
            if found != self._chain_id:
                raise ConfigurationError(
                    f"chain.chain_id is {self._chain_id}, but the node at chain.rpc_url is on {found}"
                )
            self._verified = True

    async def call(self, method: str, *parameters: Any) -> Any:
        """One JSON-RPC call."""
        (answer,) = await self._post([(method, parameters)])
        return answer

    async def batch(self, calls: list[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """Several calls in one request, answers in the order asked."""
        return await self._post(calls) if calls else []

    async def _post(self, calls: list[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        numbered = [(next(self._ids), method, parameters) for method, parameters in calls]
        body = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": list(parameters)}
            for number, method, parameters in numbered
        ]
        try:
            reply = await self._http.post(self._url, json=body)
            reply.raise_for_status()
            answers = {item["id"]: item for item in reply.json()}
            ordered = [answers[number] for number, _, _ in numbered]
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise ChainUnreachable(f"{calls[0][0]}: {type(error).__name__}: {error}") from error
        for item in ordered:
            if "error" in item:
                raise ChainRefused(str(item["error"].get("message", item["error"])))
        return [item.get("result") for item in ordered]

    async def height(self) -> int:
        """The newest block's number."""
        return int(await self.call("eth_blockNumber"), 16)

    async def block_hash(self, number: int) -> str | None:
        """The hash of the block at a height, or None above the tip."""
        block = await self.call("eth_getBlockByNumber", hex(number), False)
        return None if block is None else str(block["hash"])

    async def height_and_hash(self, number: int) -> tuple[int, str | None]:
        """The newest block's number, and the hash of the block at a height, in one request."""
        newest, block = await self.batch([("eth_blockNumber", ()), ("eth_getBlockByNumber", (hex(number), False))])
        return int(newest, 16), None if block is None else str(block["hash"])

    async def receipt(self, tx_hash: str) -> dict[str, Any] | None:
        """The receipt of a mined transaction, or None."""
        found: dict[str, Any] | None = await self.call("eth_getTransactionReceipt", tx_hash)
        return found
