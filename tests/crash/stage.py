"""What all cases share: one PostgreSQL, one bank, one nursery, and the sandbox's chain and exchange when needed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.store.migrate import upgrade
from tests.crash.nursery import Nursery
from tests.crash.world import SandboxWorld, open_world

_TEMPLATE = "crash_template"
#: Alembic's context is one for the whole process, and stages open side by side.
_MIGRATING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Stage:
    """Running parts, and where they are."""

    home: Path
    postgres: EmbeddedPostgres
    postgres_url: str
    bank_socket: Path
    book: Path
    nursery: Nursery
    world: SandboxWorld | None

    async def new_database(self, name: str) -> str:
        """URL of a migrated database without a row."""

        def make() -> None:
            with psycopg.connect(self.postgres_url, autocommit=True) as connection:
                connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{_TEMPLATE}"')

        await asyncio.to_thread(make)
        return self.postgres_url.replace("@/qtg?", f"@/{name}?", 1)

    @property
    def inventory_file(self) -> str:
        return str(self.world.inventory_file) if self.world else ""


@asynccontextmanager
async def open_stage(*, with_world: bool) -> AsyncIterator[Stage]:
    """Start everything in a folder of its own, and leave nothing behind. Durability is on."""
    home = Path(tempfile.mkdtemp(prefix="qtg-crash-"))
    home.chmod(0o711)  # under root the server runs as another user, who must pass through
    async with AsyncExitStack() as stack:
        if not os.environ.get("QTG_CRASH_KEEP"):
            stack.callback(shutil.rmtree, home, ignore_errors=True)
        postgres = EmbeddedPostgres(home)
        stack.callback(postgres.destroy)
        url = await asyncio.to_thread(postgres.start)
        await asyncio.to_thread(_make_template, url)
        socket, book = home / "bank.sock", home / "bank.book"
        await _start_bank(stack, socket, book)
        world = await stack.enter_async_context(open_world(home)) if with_world else None
        nursery = await stack.enter_async_context(Nursery())
        yield Stage(home, postgres, url, socket, book, nursery, world)


def _make_template(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{_TEMPLATE}"')
    with _MIGRATING:
        upgrade(url.replace("@/qtg?", f"@/{_TEMPLATE}?", 1))


async def _start_bank(stack: AsyncExitStack, socket: Path, book: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.crash.provider.server", str(socket), str(book)
    )

    async def end() -> None:
        if process.returncode is None:
            process.kill()
        await process.wait()

    stack.push_async_callback(end)
    while not socket.exists():
        assert process.returncode is None, "the bank did not start"
        await asyncio.sleep(0.01)
