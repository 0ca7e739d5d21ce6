"""The example service in Node as a process that a test may kill."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.plans import until
from tests.executors.remote.orders import KEY, SECRET

SERVER = Path(__file__).parents[3] / "examples" / "typescript-executor" / "server.mjs"
_SECONDS = 20


@dataclass
class NodeService:
    """One life of the service; its book outlives it."""

    url: str
    process: asyncio.subprocess.Process
    folder: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def holds_answers(self) -> Path:
        """While this file is there, moves are made and submits not answered."""
        return self.folder / "hold"

    def book(self) -> list[dict[str, Any]]:
        """All moves that were made."""
        file = self.folder / "moves.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    async def wait_for_moves(self, count: int) -> None:
        """Return as soon as the book has so many moves."""

        async def made() -> bool:
            return len(self.book()) >= count

        await until(made, f"{count} moves")

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def node_service(folder: Path, *, port: int = 0, **settings: str) -> AsyncIterator[NodeService]:
    """Run the service over the book in `folder` inside the block."""
    node = shutil.which("node")
    assert node is not None, "install Node 20 or later"
    process = await asyncio.create_subprocess_exec(
        node,
        str(SERVER),
        env={
            "PATH": os.environ["PATH"],
            "EXECUTOR_KEY": KEY,
            "EXECUTOR_SECRET": SECRET.expose(),
            "EXECUTOR_BOOK": str(folder / "moves.jsonl"),
            "EXECUTOR_PORT": str(port),
            "HOLD_ANSWERS_FILE": str(folder / "hold"),
            **settings,
        },
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        said = (await asyncio.wait_for(process.stdout.readline(), _SECONDS)).decode().strip()
        assert said.startswith(f"serving {KEY} on http"), said or f"node ended with {await process.wait()}"
        service = NodeService(said.rpartition(" ")[2], process, folder)
        yield service
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
