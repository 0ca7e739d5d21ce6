"""Stopping and starting the database server under its users."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from tests.crash.stage import Stage

_SOON = 0.01


@dataclass(frozen=True, slots=True)
class Absence:
    """Epoch seconds between which nobody could have the server; it took its first connection at `back`."""

    gone: float
    back: float


async def restart(stage: Stage, how: signal.Signals = signal.SIGQUIT, *, away_seconds: float = 0.0) -> Absence:
    """Stop the server (SIGQUIT: as in a crash; SIGINT: in order) and start it again."""
    with suppress(ProcessLookupError):
        pid = int((stage.postgres.place.data / "postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(pid, how)
        while (stage.postgres.place.data / "postmaster.pid").exists() and _lives(pid):
            await asyncio.sleep(_SOON)
    gone = time.time()
    await asyncio.sleep(away_seconds)
    back = asyncio.create_task(_first_connection(stage.postgres_url))
    await asyncio.to_thread(stage.postgres.start)
    return Absence(gone, await back)


async def _first_connection(url: str) -> float:
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(url, connect_timeout=2)
        except psycopg.OperationalError:
            await asyncio.sleep(_SOON)
            continue
        back = time.time()
        await connection.close()
        return back


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
