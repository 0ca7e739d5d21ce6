"""Calls that are given up half-way must leave nothing behind that later calls wait for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from qtg_dagster.lanes.evm.endpoint import Endpoint


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """HTTP just far enough: the same JSON-RPC result to every POST."""
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "result": "0x1"}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    try:
        while True:
            asked = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in asked.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            writer.write(head + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    endpoint = Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    yield endpoint
    await endpoint.close()
    server.close()


async def test_calls_cancelled_at_any_point_do_not_block_the_next(endpoint: Endpoint) -> None:
    """web3 guards all sessions of a process by one lock, which a call cancelled while waiting for it never frees."""
    assert await endpoint.ask("eth_chainId", ()) == "0x1"
    for steps in range(40):
        calls = [asyncio.create_task(endpoint.ask("eth_chainId", ())) for _ in range(8)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    assert await asyncio.wait_for(endpoint.ask("eth_chainId", ()), 20) == "0x1"
