"""What of a venue's rows may be written down: no secret, and nobody's name, e-mail address or telephone number. Pure.

Between customers of one venue, rows name people where others name an address of a chain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from qtg_dagster.domain.redaction import REDACTED, redact

if TYPE_CHECKING:
    from qtg_dagster.lanes.cex.venue import DepositRow, WithdrawalRow

_EMAIL = re.compile(r"[^\s@\"'<>,;:/=]+@[^\s@\"'<>,;:/=]+\.[A-Za-z]{2,}")
#: Digits, as they are dialled or half hidden. No address of a chain is one.
_NUMBER = re.compile(r"\+?[0-9][0-9*\-() ]{5,18}[0-9]")
_PLACES = re.compile(r"(?i)from|to|address|from_?address|to_?address|account")
_OF_PEOPLE = re.compile(
    r"(?i)(?:first|last|full|user|nick|sender|receiver|recipient)_?name|area_?code(?:from|to)?|phone|mobile|"
    r"details|description"
)


def shown(value: Any) -> Any:
    """A copy of a JSON value that may be written down."""
    return _impersonal(redact(value), "", at_a_place=False)


def shown_rows(rows: Iterable[WithdrawalRow | DepositRow]) -> list[Any]:
    """The rows as their venue told them."""
    return [shown(row.raw) for row in rows]


def shown_address(address: str | None) -> str | None:
    """An address of a chain; a person's in its place is not shown."""
    return None if address is None else str(_impersonal(address, "address", at_a_place=True))


def _impersonal(value: Any, name: str, *, at_a_place: bool) -> Any:
    """`at_a_place` is what stands below where something came from or went, where a `name` is somebody's."""
    if value in (None, ""):
        return value
    if _OF_PEOPLE.fullmatch(name) or (at_a_place and name == "name"):
        return REDACTED
    if isinstance(value, Mapping):
        below = at_a_place or _PLACES.fullmatch(name) is not None
        return {key: _impersonal(item, key, at_a_place=below) for key, item in value.items()}
    if isinstance(value, list):
        return [_impersonal(item, name, at_a_place=at_a_place) for item in value]
    if _PLACES.fullmatch(name) and _NUMBER.fullmatch(str(value)):
        return REDACTED
    return _EMAIL.sub(REDACTED, value) if isinstance(value, str) and "@" in value else value
