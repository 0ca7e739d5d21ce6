"""How a venue's histories are read page by page: from one page to the cursor of the next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

from qtg_dagster.lanes.cex.reply import LookupFailed

Rows = Sequence[Mapping[str, Any]]


class Paging(Protocol):
    """One way of paging. A cursor is text; None stands for the first page, and after the last one."""

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:
        """The cursor of the page after this one. Raises `LookupFailed` when pages stop moving: the rest is unread."""
        ...


@dataclass(frozen=True, slots=True)
class ByOffset:
    """The number of rows to skip."""

    rows_shift: ClassVar[bool] = True  # a row that comes in moves the others to other pages
    size: int

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:  # noqa: ARG002
        return str(int(cursor or "0") + self.size) if len(rows) >= self.size else None


@dataclass(frozen=True, slots=True)
class ByPageNumber:
    """Pages counted from `first`."""

    rows_shift: ClassVar[bool] = True
    size: int
    first: int = 1

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:  # noqa: ARG002
        return str(int(cursor or self.first) + 1) if len(rows) >= self.size else None


@dataclass(frozen=True, slots=True)
class AfterId:
    """The id of the last row seen."""

    size: int
    name: str

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:  # noqa: ARG002
        return _moved(_text(rows[-1], self.name), cursor) if len(rows) >= self.size else None


@dataclass(frozen=True, slots=True)
class BelowId:
    """Newest first, and newer ids are higher whole numbers; the cursor is one that ids have to be below.

    A page that is not in the order of its ids may leave out rows that no other page shows.
    """

    size: int
    name: str

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:  # noqa: ARG002
        if len(rows) < self.size:
            return None
        ids = [_text(row, self.name) for row in rows]
        if not all(found.isascii() and found.isdigit() for found in ids):
            raise LookupFailed("MALFORMED", f"a page of rows without a whole {self.name}")
        numbers = [int(found) for found in ids]
        bound = [] if cursor is None else [int(cursor)]
        if any(later >= earlier for earlier, later in pairwise(bound + numbers)):
            raise LookupFailed(
                "PAGES_OUT_OF_ORDER", f"a page that is not in the order of {self.name}: rows may be missing"
            )
        return ids[-1]


@dataclass(frozen=True, slots=True)
class OlderThan:
    """Newest first; the cursor is a whole number (milliseconds) that rows have to be below.

    Rows of the very moment of the last one may stand on the next page, so that moment is asked for once more.
    """

    size: int
    name: str

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:  # noqa: ARG002
        if len(rows) < self.size:
            return None
        moments = [_text(row, self.name) for row in rows]
        if not all(moment.isascii() and moment.isdigit() for moment in moments):
            raise LookupFailed("MALFORMED", f"a page of rows without a whole {self.name}")
        return _moved(str(min(map(int, moments)) + 1), cursor)


@dataclass(frozen=True, slots=True)
class ByToken:
    """The venue names the next page itself, or none."""

    read: Callable[[Any], str | None]

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:  # noqa: ARG002
        token = self.read(body)
        return None if token is None else _moved(token, cursor)


def _text(row: Mapping[str, Any], name: str) -> str:
    if row.get(name) in (None, ""):
        raise LookupFailed("MALFORMED", f"a page of rows without {name}")
    return str(row[name])


def _moved(following: str, cursor: str | None) -> str:
    if following == cursor:
        raise LookupFailed("PAGES_STAND_STILL", "a full page leads to itself: what comes after it cannot be read")
    return following
