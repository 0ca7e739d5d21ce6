"""Bitget's envelope, which every answer comes in, and its way of calling coins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qtg_dagster.lanes.cex.readings import data_of_success, field, rows
from qtg_dagster.lanes.cex.reply import LookupFailed


def _envelope(body: Any, what: str) -> Any:
    return data_of_success(body, "00000", what)


def data_of(body: Any, what: str) -> Mapping[str, Any]:
    found = _envelope(body, what)
    if not isinstance(found, dict):
        raise LookupFailed("MALFORMED", f"{what}: not an object")
    return found


def rows_of(body: Any, what: str) -> Sequence[Mapping[str, Any]]:
    return rows(_envelope(body, what), what)


def coin_of(row: Mapping[str, Any], name: str) -> str:
    """Some answers tell coins in small letters; coins with both kinds are called so everywhere."""
    found = str(field(row, name, "coin"))
    return found.upper() if found.islower() else found
