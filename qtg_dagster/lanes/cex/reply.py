"""What one HTTP request to a venue brought back, kept raw so that the decision is made elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

from qtg_dagster.domain.errors import QtgError
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.lanes.cex.shown import shown

_BODY_IN_EVIDENCE = 600
_JSON_IN_EVIDENCE = 4_000
_LONGEST_WORD = 20


class LookupFailed(QtgError):
    """A read that brought no well-formed answer: it says nothing about what was asked."""

    def __init__(self, code: str, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.retry_after_seconds = retry_after_seconds


class NoSuchWallet(LookupFailed):
    """The venue says that the customer has no wallet of the kind that was asked for; `date` is the server's."""

    def __init__(self, date: datetime | None) -> None:
        super().__init__("NO_SUCH_WALLET", "the account has no wallet of this kind")
        self.date = date


class NoSuchRow(LookupFailed):
    """The venue says that its record has nothing under the id that was asked for: so far, as any empty look says."""

    def __init__(self, venue_code: str) -> None:
        super().__init__("NO_SUCH_ROW", f"nothing is on record under this id ({venue_code})")


@dataclass(frozen=True, slots=True)
class RawReply:
    """One request's traces. `sent` is False only when no byte of it can have left this machine.

    `json` is an object or a list with every fraction as text, and None when the body is not whole, readable JSON.
    """

    sent: bool
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body_text: str | None = None
    json: Any = None
    error: str | None = None

    def header(self, name: str) -> str | None:
        """A header's value; `name` is in lower case."""
        return next((value for known, value in self.headers.items() if known.lower() == name), None)

    @property
    def retry_after_seconds(self) -> float | None:
        """The venue's `Retry-After` in seconds, when it gave one."""
        text = self.header("retry-after") or ""
        return float(text) if text.isascii() and text.isdigit() else None

    @property
    def date(self) -> datetime | None:
        """When the server says that it answered; None for none, and for one that cannot be read."""
        try:
            found = parsedate_to_datetime(self.header("date") or "")
        except ValueError:
            return None
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)

    def payload(self, *, plain: bool = False) -> Any:
        """The JSON of a 2xx answer, or, when `plain` is meant, its one word; raises `LookupFailed` for all else."""
        if not self.sent or self.status is None:
            raise LookupFailed("NO_ANSWER", self.error or "the venue gave no answer")
        if not 200 <= self.status < 300:
            raise LookupFailed(
                f"HTTP_{self.status}",
                redact_text((self.body_text or self.error or "")[:_BODY_IN_EVIDENCE]),
                retry_after_seconds=self.retry_after_seconds,
            )
        word = (self.body_text or "").strip().strip('"')
        if self.json is None and plain and word.isalnum() and len(word) <= _LONGEST_WORD:
            return word
        if self.json is None:
            raise LookupFailed("UNREADABLE", f"HTTP {self.status} without whole, readable JSON")
        return self.json

    def evidence(self) -> dict[str, Any]:
        """The reply for the journal, redacted and cut."""
        body = shown(self.json) if self.json is not None else redact_text((self.body_text or "")[:_BODY_IN_EVIDENCE])
        return {"sent": self.sent, "http_status": self.status, "body": body, "error": self.error}


def exact_json(text: str | None) -> Any:
    """Read an object or a list with fractions as text; None for anything that is not whole, readable JSON."""
    if not text or "\ufffd" in text:
        return None
    try:
        value = json.loads(text, parse_float=str, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, (dict, list)) else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
