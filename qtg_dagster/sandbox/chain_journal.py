"""What the sandbox chain must not forget: every transaction handed to it, and how high it stood.

anvil keeps its chain in memory. The journal is written ahead of it, so that a chain that is killed comes back with
every transaction it had taken.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Replay:
    """What a restarted chain has to make up for."""

    raw_transactions: tuple[str, ...]
    height: int  # at least this high, so that nothing comes back below a block that somebody has already read


class ChainJournal:
    """An append-only file of JSON lines, flushed to the disk before `record_*` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = path.open("ab")
        self._height = -1
        self._taken: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def record_transaction(self, raw: str) -> None:
        """Remember bytes before the node is given them; bytes that it has taken already are remembered once."""
        if raw not in self._taken:
            self._taken.add(raw)
            self._append({"raw": raw})

    def holds(self, raw: str) -> bool:
        """Whether these bytes were given to the node and not refused."""
        return raw in self._taken

    def record_refusal(self, raw: str) -> None:
        """Remember that the node would not have these bytes: they are not given to it again by a replay."""
        self._taken.discard(raw)
        self._append({"refused": raw})

    def record_height(self, height: int) -> None:
        """Remember how high the chain stands."""
        if height > self._height:
            self._height = height
            self._append({"height": height})

    def restart(self, height: int) -> None:
        """Begin anew: the chain's state up to `height` is safe in its own file."""
        fresh = self._path.with_name(self._path.name + ".new")
        with fresh.open("wb") as stream:
            stream.write(_line({"height": height}))
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self._path)
        self._stream.close()
        self._stream = self._path.open("ab")
        self._height = height

    def _append(self, entry: dict[str, str | int]) -> None:
        self._stream.write(_line(entry))
        self._stream.flush()
        os.fsync(self._stream.fileno())

    @staticmethod
    def read(path: Path) -> Replay:
        """What a journal asks for; a last line that was torn by a kill was never acknowledged and is left out."""
        taken: dict[str, None] = {}
        height, blocks_since = 0, 0
        for line in path.read_bytes().splitlines() if path.is_file() else ():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if "raw" in entry:
                taken[entry["raw"]] = None
                blocks_since += 1
            elif "refused" in entry:
                taken.pop(entry["refused"], None)
            else:
                height, blocks_since = max(height, int(entry["height"])), 0
        # Each transaction may have made a block of its own after the height was last written down.
        return Replay(tuple(taken), height + blocks_since)


def _line(entry: dict[str, str | int]) -> bytes:
    return json.dumps(entry).encode() + b"\n"
