"""Binance's request rules: key, HMAC-SHA256 over the exact text sent, clock, parameters, and its error bodies."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

_WHOLE = re.compile(r"[0-9]{1,18}")
_MAX_RECV_WINDOW = 60_000
_AHEAD_MS = 1_000


class Refusal(Exception):
    """A refusal in Binance's words: an HTTP status and a JSON code."""

    def __init__(self, code: int, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status

    def body(self) -> dict[str, Any]:
        return {"code": self.code, "msg": self.message}


@dataclass(frozen=True, slots=True)
class VenueRequest:
    """A request as its bytes came in; `endpoint` is the path below the venue's prefix."""

    method: str
    endpoint: str
    query: str
    body: str
    api_key: str | None

    def parameters(self) -> Parameters:
        """All parameters of query and body; refuses one that is sent twice."""
        pairs = [pair for text in (self.query, self.body) for pair in parse_qsl(text, keep_blank_values=True)]
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise Refusal(-1101, f"Duplicate values for parameter '{name}'.")
        return Parameters(dict(pairs))


class Parameters:
    """Named parameters with Binance's refusals for those missing or malformed."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str) -> str | None:
        """The value, or None when absent or empty."""
        return self._values.get(name) or None

    def required(self, name: str) -> str:
        """The value; refuses with -1102 when absent or empty."""
        value = self.text(name)
        if value is None:
            raise Refusal(-1102, f"Mandatory parameter '{name}' was not sent, was empty/null, or malformed.")
        return value

    def whole(self, name: str) -> int | None:
        """A whole number, or None; refuses anything else with -1100."""
        value = self.text(name)
        if value is None:
            return None
        if not _WHOLE.fullmatch(value):
            raise Refusal(-1100, f"Illegal characters found in parameter '{name}'; legal range is '^[0-9]{{1,18}}$'.")
        return int(value)


def authenticate(request: VenueRequest, *, api_key: str, api_secret: str, now_ms: int) -> Parameters:
    """Check key, signature and clock in Binance's order; returns the parameters or raises `Refusal`."""
    if not request.api_key:
        raise Refusal(-2014, "API-key format invalid.", 401)
    if not hmac.compare_digest(request.api_key.encode(), api_key.encode()):
        raise Refusal(-2015, "Invalid API-key, IP, or permissions for action.", 401)
    parameters = request.parameters()
    given = parameters.required("signature")
    parameters.required("timestamp")
    timestamp = parameters.whole("timestamp") or 0
    window = parameters.whole("recvWindow")
    if window is not None and window > _MAX_RECV_WINDOW:
        raise Refusal(-1131, f"recvWindow must be less than {_MAX_RECV_WINDOW}.")
    if timestamp >= now_ms + _AHEAD_MS:
        raise Refusal(-1021, "Timestamp for this request was 1000ms ahead of the server's time.")
    if now_ms - timestamp > (5_000 if window is None else window):
        raise Refusal(-1021, "Timestamp for this request is outside of the recvWindow.")
    signed = _without_signature(request.query) + _without_signature(request.body)
    expected = hmac.new(api_secret.encode(), signed.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(given.lower().encode(), expected.encode()):
        raise Refusal(-1022, "Signature for this request is not valid.")
    return parameters


def _without_signature(text: str) -> str:
    return "&".join(part for part in text.split("&") if not part.startswith("signature="))


def utc_text(at_ms: int) -> str:
    """A time as Binance writes it in withdrawals: `2019-10-12 11:12:02`, in UTC, without saying so."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def fixed(text: str, digits: int = 8) -> str:
    """A plain decimal padded to Binance's eight places, never cut."""
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')}"
