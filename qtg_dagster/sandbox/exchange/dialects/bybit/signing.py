"""Bybit's request rules (v5): four headers, HMAC-SHA256 in hex over time, key, window and what is asked for."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import parse_qsl

from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

_LONGEST_WINDOW_MS = 60_000
_AHEAD_MS = 1_000
_HEADERS = ("x-bapi-api-key", "x-bapi-timestamp", "x-bapi-sign")


class BybitParameters(Parameters):
    """A query, or the fields of a JSON object; numbers only where the venue asks for whole ones."""

    def missing(self, name: str) -> Refusal:
        return Refusal("131002", f"Parameter error: {name} is required", 200)

    def malformed(self, name: str) -> Refusal:
        return Refusal("131002", f"Parameter error: {name} is invalid", 200)

    def whole(self, name: str) -> int | None:
        value: Any = self._values.get(name)
        return value if type(value) is int else super().whole(name)


def parameters_of(request: VenueRequest) -> BybitParameters:
    """The query of a GET, the JSON body of anything else."""
    if request.method == "GET":
        return BybitParameters(dict(parse_qsl(request.query, keep_blank_values=True)))
    try:
        values = json.loads(request.body) if request.body else {}
    except ValueError:
        raise Refusal("10001", "Request parameter error: not JSON", 200) from None
    if not isinstance(values, dict):
        raise Refusal("10001", "Request parameter error: not an object", 200)
    return BybitParameters(values)


def authenticate(request: VenueRequest, config: VenueConfig, now_ms: int) -> BybitParameters:
    """Check headers, key, clock and signature, in this order."""
    for header in _HEADERS:
        if not request.headers.get(header):
            raise Refusal("10001", f"Request parameter error: header {header} is missing", 200)
    if not _same(request.headers["x-bapi-api-key"], config.api_key):
        raise Refusal("10003", "API key is invalid.", 200)
    given, window = request.headers["x-bapi-timestamp"], request.headers.get("x-bapi-recv-window", "5000")
    if not (given.isdigit() and window.isdigit()) or int(window) > _LONGEST_WINDOW_MS:
        raise Refusal("10001", "Request parameter error: timestamp or recv_window", 200)
    if not now_ms - int(window) <= int(given) < now_ms + _AHEAD_MS:
        raise Refusal("10002", "invalid request, please check your server timestamp or recv_window param.", 200)
    asked = request.query if request.method == "GET" else request.body
    signed = given + config.api_key + window + asked
    digest = hmac.new(config.api_secret.get_secret_value().encode(), signed.encode(), hashlib.sha256).hexdigest()
    if not _same(request.headers["x-bapi-sign"], digest):
        raise Refusal("10004", "error sign! please check your signature generation algorithm.", 200)
    return parameters_of(request)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
