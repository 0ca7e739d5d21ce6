"""How long a dependency may take to answer, told apart from how long this process took to get going."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def answer_within(seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, which must be harmless to ask for twice; raises `TimeoutError` when the second is late too.

    A process's first call loads large libraries, and on a busy machine that alone can outlast the limit.
    """
    try:
        return await asyncio.wait_for(ask(), seconds)
    except TimeoutError:
        return await asyncio.wait_for(ask(), seconds)
