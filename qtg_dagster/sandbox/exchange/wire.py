"""What every wire has: a request as its bytes came in, its parameters, and refusals in the venue's own words."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

_WHOLE = re.compile(r"[0-9]{1,18}")

Answer = tuple[int, Any]


class Refusal(Exception):
    """A refusal as the venue words it: its code, its message, and the HTTP status that it comes with."""

    def __init__(self, code: int | str, message: str = "", status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


@dataclass(frozen=True, slots=True)
class VenueRequest:
    """A request as its bytes came in; `endpoint` is the path below the venue's prefix, headers are in lower case."""

    method: str
    endpoint: str
    query: str
    body: str
    headers: Mapping[str, str]


class Parameters(ABC):
    """Named parameters, with the venue's refusals for those missing or malformed.

    `place` holds what stands in the path of an endpoint whose path has names in it.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.place: Mapping[str, str] = {}

    def at(self, place: Mapping[str, str]) -> Self:
        """These parameters, at an endpoint with that in its path."""
        self.place = place
        return self

    @abstractmethod
    def missing(self, name: str) -> Refusal:
        """How the venue refuses a request without this parameter."""

    @abstractmethod
    def malformed(self, name: str) -> Refusal:
        """How the venue refuses a value of the wrong shape or type."""

    def text(self, name: str) -> str | None:
        """The value, or None when absent or empty; what is no text is malformed."""
        value = self._values.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.malformed(name)
        return value

    def required(self, name: str) -> str:
        """The value; refused when absent or empty."""
        value = self.text(name)
        if value is None:
            raise self.missing(name)
        return value

    def object(self, name: str) -> Mapping[str, Any] | None:
        """An object of JSON, or None when absent or empty; what is none is malformed."""
        value = self._values.get(name)
        if value is None or value == {}:
            return None
        if not isinstance(value, Mapping):
            raise self.malformed(name)
        return value

    def whole(self, name: str) -> int | None:
        """A whole number, or None; anything else is malformed."""
        value = self.text(name)
        if value is None:
            return None
        if not _WHOLE.fullmatch(value):
            raise self.malformed(name)
        return int(value)


def fixed(text: str, digits: int = 8) -> str:
    """A plain decimal padded to that many places, never cut."""
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')}"
