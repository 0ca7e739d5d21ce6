"""What a reader of a venue's record gives, and for what it stands in: the lanes read, the treasury keeps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from qtg_dagster.domain.cex_transfers import SeenTransfer


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """Why a reading is not whole. `local` = shorter stretches of time may be read whole all the same."""

    code: str
    message: str
    local: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class RecordReading:
    """Transfers that a venue shows for a stretch of time: all of them, or those read until a problem arose."""

    transfers: tuple[SeenTransfer, ...]
    problem: RecordProblem | None = None


class RecordReader(Protocol):
    """Reads both records of one venue account. Writes nothing, and raises nothing about the venue: it tells."""

    @property
    def venue_key(self) -> str: ...

    @property
    def account(self) -> str:
        """The account's name at the venue."""
        ...

    @property
    def days_at_once(self) -> int:
        """How many days are best asked for at once."""
        ...

    async def read(self, start: datetime, end: datetime, known_coins: Collection[str]) -> RecordReading:
        """All transfers between two moments, of all coins.

        Where a venue has to be asked coin by coin, those of the inventory, those held, and `known_coins`.
        """
        ...
