"""The bank's own book: one line a move, appended and flushed, never changed; it outlives the bank's process."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BookedMove:
    """Money that moved. `client_id` is what the customer called it; nothing here is unique but `seq`."""

    seq: int
    at: float
    client_id: str
    account: str
    target: str
    amount: str


class Book:
    """Appends moves and finds them. Never deduplicates."""

    def __init__(self, path: Path) -> None:
        self._moves = list(read_book(path))
        self._file = path.open("a", encoding="utf-8")

    def move(self, client_id: str, account: str, target: str, amount: str) -> BookedMove:
        """Move money, whatever was moved before."""
        booked = BookedMove(len(self._moves) + 1, time.time(), client_id, account, target, amount)
        self._file.write(json.dumps(asdict(booked)) + "\n")
        self._file.flush()
        self._moves.append(booked)
        return booked

    def find(self, client_id: str) -> list[BookedMove]:
        return [move for move in reversed(self._moves) if move.client_id == client_id]


def read_book(path: Path) -> tuple[BookedMove, ...]:
    """All moves so far; a last line that is being written is not one yet."""
    if not path.is_file():
        return ()
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return tuple(BookedMove(**json.loads(line)) for line in lines)
