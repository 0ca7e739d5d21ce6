"""Keeping texts out of what a venue sends back: what it was told of a person may stand in its answer. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from qtg_dagster.domain.redaction import REDACTED

#: Shorter texts, and short numbers, stand in answers for other reasons, and tell nothing of anybody.
_SHORTEST = 3
_SHORTEST_NUMBER = 6


class Hidden:
    """Texts that are not to be seen, as words of their own and in whatever case."""

    def __init__(self, texts: Iterable[str]) -> None:
        found = sorted({text.strip() for text in texts if _tells_something(text.strip())}, key=len, reverse=True)
        spelt = [spelling for text in found for spelling in (text, json.dumps(text)[1:-1])]
        pattern = "|".join(re.escape(spelling) for spelling in spelt)
        self._pattern = re.compile(rf"(?<![^\W_])(?:{pattern})(?![^\W_])", re.IGNORECASE) if spelt else None

    def in_text(self, text: str) -> str:
        """The text without them."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def in_json(self, value: Any) -> Any:
        """A copy of a JSON value without them; names of fields stay."""
        if self._pattern is None:
            return value
        if isinstance(value, dict):
            return {name: self.in_json(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.in_json(item) for item in value]
        if isinstance(value, str):
            return self.in_text(value)
        return value


def texts_in(value: Any) -> Iterator[str]:
    """All texts and numbers that stand in a JSON value, names of fields left out."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, (str, int)) and not isinstance(value, bool):
        yield str(value)


def _tells_something(text: str) -> bool:
    return len(text) >= (_SHORTEST_NUMBER if text.isdigit() else _SHORTEST)
