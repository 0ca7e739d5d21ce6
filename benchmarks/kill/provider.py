"""A provider that moves money whenever it is asked to, never deduplicates, and can be asked by client id."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable


class Book:
    """All moves in the order in which they were made; `on_move` hears of each."""

    def __init__(self, on_move: Callable[[int], None]) -> None:
        self._on_move = on_move
        self.moves: list[tuple[float, str, str]] = []
        self.keys: Counter[str] = Counter()

    def units(self) -> Counter[str]:
        """How often the money of each step moved."""
        return Counter(unit for _, unit, _ in self.moves)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            verb, *words = (await reader.readuntil(b"\n")).decode().split()
            if verb == "move":
                unit, key = words
                await asyncio.sleep(random.uniform(0.001, 0.004))  # noqa: S311 - a delay, no secret
                self.moves.append((time.monotonic(), unit, key))
                self.keys[key] += 1
                self._on_move(len(self.moves))
                await asyncio.sleep(random.uniform(0.001, 0.004))  # noqa: S311
                answer = "moved"
            else:
                answer = str(self.keys[words[0]])
            writer.write(answer.encode() + b"\n")
            await writer.drain()
        except (OSError, EOFError):
            pass  # the caller was killed
        finally:
            writer.close()
