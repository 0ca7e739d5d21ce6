"""One stage for all tests of this folder, on one event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.crash.bench import Bench, open_bench
from tests.crash.stage import Stage, open_stage


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stage() -> AsyncIterator[Stage]:
    """PostgreSQL, bank, chain, exchange and nursery, all real."""
    async with open_stage(with_world=True) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bench(stage: Stage) -> AsyncIterator[Bench]:
    async with open_bench(stage, 0) as opened:
        yield opened
