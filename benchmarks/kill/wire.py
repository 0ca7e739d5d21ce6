"""How a worker talks to the provider: one line a call over a unix socket. Imports nothing of ours."""

from __future__ import annotations

import asyncio

MOVEMENTS = 200
STEPS = 3
IN_FLIGHT = 16


async def ask(socket: str, *words: str) -> str:
    """One call, one answer; raises `OSError` or `EOFError` when the answer did not come."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        writer.write(" ".join(words).encode() + b"\n")
        answer = await reader.readuntil(b"\n")
    finally:
        writer.close()
    return answer.decode().strip()
