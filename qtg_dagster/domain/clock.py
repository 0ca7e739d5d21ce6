"""The time as a dependency, so that tests own it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Whatever tells the time."""

    def now(self) -> datetime:
        """The present as an aware UTC datetime."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)
