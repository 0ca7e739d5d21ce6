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
from tests.crash.provider.receiver import SECRET
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
    owner_url: str  # whom all movements tell
    owners_book: Path
    callbacks_file: Path

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
        await _start(stack, "server", socket, book)
        port_file, owners_book = home / "owner.port", home / "owner.book"
        await _start(stack, "receiver", port_file, owners_book)
        owner_url = f"http://127.0.0.1:{port_file.read_text()}/hook"
        world = await stack.enter_async_context(open_world(home)) if with_world else None
        nursery = await stack.enter_async_context(Nursery())
        yield Stage(home, postgres, url, socket, book, nursery, world, owner_url, owners_book, _callbacks_file(home))


def _callbacks_file(home: Path) -> Path:
    (home / "callback.secret").write_text(SECRET)
    path = home / "callbacks.yaml"
    path.write_text(f"callbacks: {{secret: {{file: {home / 'callback.secret'}}}}}\n")
    return path


def _make_template(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{_TEMPLATE}"')
    with _MIGRATING:
        upgrade(url.replace("@/qtg?", f"@/{_TEMPLATE}?", 1))


async def _start(stack: AsyncExitStack, provider: str, ready: Path, book: Path) -> None:
    """Start the bank (`server`) or the owner (`receiver`), and wait until it is ready: then there is its file."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"tests.crash.provider.{provider}", str(ready), str(book)
    )

    async def end() -> None:
        if process.returncode is None:
            process.kill()
        await process.wait()

    stack.push_async_callback(end)
    while not ready.exists():
        assert process.returncode is None, f"the {provider} did not start"
        await asyncio.sleep(0.01)
