"""COMMIT was sent, the server did it, and its answer never comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.crash.case import Case


async def play(case: Case) -> None:
    """Placeholder until the proxy stands."""
    raise TimeoutError(f"{case.cell} has no proxy yet")
