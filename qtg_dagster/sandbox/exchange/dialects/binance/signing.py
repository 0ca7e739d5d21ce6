"""Binance's request rules: key, HMAC-SHA256 over the exact text sent, clock, and parameters."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

_MAX_RECV_WINDOW = 60_000
_AHEAD_MS = 1_000


class BinanceParameters(Parameters):
    """Query and form together, all of it text."""

    def missing(self, name: str) -> Refusal:
        return Refusal(-1102, f"Mandatory parameter '{name}' was not sent, was empty/null, or malformed.")

    def malformed(self, name: str) -> Refusal:
        return Refusal(-1100, f"Illegal characters found in parameter '{name}'; legal range is '^[0-9]{{1,18}}$'.")


def parameters_of(request: VenueRequest) -> BinanceParameters:
    """All parameters of query and body; refuses one that is sent twice."""
    pairs = [pair for text in (request.query, request.body) for pair in parse_qsl(text, keep_blank_values=True)]
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise Refusal(-1101, f"Duplicate values for parameter '{name}'.")
    return BinanceParameters(dict(pairs))


def authenticate(request: VenueRequest, *, api_key: str, api_secret: str, now_ms: int) -> BinanceParameters:
    """Check key, signature and clock in Binance's order; returns the parameters or raises `Refusal`."""
    key = request.headers.get("x-mbx-apikey")
    if not key:
        raise Refusal(-2014, "API-key format invalid.", 401)
    if not hmac.compare_digest(key.encode(), api_key.encode()):
        raise Refusal(-2015, "Invalid API-key, IP, or permissions for action.", 401)
    parameters = parameters_of(request)
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
