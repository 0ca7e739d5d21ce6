"""Readers that the venues' modules share. Each gives what it says or raises `LookupFailed`; none guesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from qtg_dagster.lanes.cex.outcome import usable_id
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import RowState, Window

_EPOCH = datetime.fromtimestamp(0, UTC)


def rows(body: Any, what: str) -> Sequence[Mapping[str, Any]]:
    """A list of objects."""
    if not isinstance(body, list) or not all(isinstance(row, dict) for row in body):
        raise LookupFailed("MALFORMED", f"{what}: not a list of rows")
    return body


def field(row: Any, name: str, what: str) -> Any:
    """A field that must be there."""
    if not isinstance(row, dict) or row.get(name) is None:
        raise LookupFailed("MALFORMED", f"{what}: {name} is missing")
    return row[name]


def data_of_success(body: Any, success: str, what: str) -> Any:
    """What stands beside the `code` of a success; None for nothing."""
    code = str(field(body, "code", what))
    if code != success:
        raise LookupFailed(f"CODE_{code}", f"{what}: {body.get('msg') or 'no reason given'}")
    return body.get("data")


def ident(row: Mapping[str, Any], name: str, what: str) -> str:
    """An id that can be one: 0, blanks and null are none."""
    found = usable_id(field(row, name, what))
    if found is None:
        raise LookupFailed("MALFORMED", f"{what}: {row[name]!r} is no id")
    return found


def text(value: Any) -> str | None:
    """Text without blanks around it; None for nothing."""
    found = "" if value is None else str(value).strip()
    return found or None


def decimal(value: Any, what: str) -> Decimal:
    """An amount: finite and not negative."""
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise LookupFailed("MALFORMED", f"{what}: {value!r} is no number") from error
    if not number.is_finite() or number < 0:
        raise LookupFailed("MALFORMED", f"{what}: {value!r} is no amount")
    return number


def step_of(decimals: Any, what: str) -> Decimal:
    """The smallest step of an amount with so many digits after the point."""
    if not str(decimals).isdigit() or int(decimals) > 36:
        raise LookupFailed("MALFORMED", f"{what}: {decimals!r} is no number of digits")
    return Decimal(1).scaleb(-int(decimals))


def moment(value: Any) -> datetime:
    """A time in milliseconds."""
    found = str(value)
    if not (found.isascii() and found.isdigit()) or len(found) > 14:
        raise LookupFailed("MALFORMED", f"{value!r} is no time in milliseconds")
    return _EPOCH + timedelta(milliseconds=int(found))


def moment_of_seconds(value: Any) -> datetime:
    """A time in seconds, perhaps with a fraction."""
    seconds = decimal(value, "time")
    if seconds >= 10**11:
        raise LookupFailed("MALFORMED", f"{value!r} is no time in seconds")
    return _EPOCH + timedelta(microseconds=int(seconds * 1_000_000))


def moment_of_zone(value: Any) -> datetime:
    """An ISO time that says how far it is from UTC; one that does not could be anybody's."""
    try:
        told = datetime.fromisoformat(str(value))
    except ValueError as error:
        raise LookupFailed("MALFORMED", f"{value!r} is no time") from error
    if told.tzinfo is None:
        raise LookupFailed("MALFORMED", f"{value!r} does not say in which zone")
    return told.astimezone(UTC)


def utc_text(value: Any) -> datetime | None:
    """A time that is UTC without saying so; newer rows may carry milliseconds instead."""
    if value in (None, ""):
        return None
    if str(value).isdigit():
        return moment(value)
    try:
        return datetime.strptime(str(value), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise LookupFailed("MALFORMED", f"{value!r} is no UTC time") from error


def milliseconds(at: datetime) -> str:
    """A time as venues take it."""
    return str((at - _EPOCH) // timedelta(milliseconds=1))


def seconds(at: datetime) -> str:
    """A time in seconds with its fraction."""
    return f"{Decimal((at - _EPOCH) // timedelta(milliseconds=1)) / 1000:f}"


def start_end(window: Window) -> dict[str, str]:
    """A window as `startTime` and `endTime`."""
    return {"startTime": milliseconds(window.start), "endTime": milliseconds(window.end)}


def state_in(table: Mapping[str, RowState], status: str) -> tuple[RowState, bool]:
    """What a status means by a venue's table, and whether it stands in it: what does not is pending."""
    return table.get(status, RowState.PENDING), status in table
