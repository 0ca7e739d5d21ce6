"""OKX's request rules: four headers, HMAC-SHA256 in base64 over time, method, path and body, thirty seconds, JSON."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

_LIFETIME_MS = 30_000
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_HEADERS = (
    ("ok-access-key", "50103"),
    ("ok-access-passphrase", "50104"),
    ("ok-access-sign", "50106"),
    ("ok-access-timestamp", "50107"),
)


class OkxParameters(Parameters):
    """A query, or the fields of a JSON object; every value is text."""

    def missing(self, name: str) -> Refusal:
        return Refusal("50014", f"Parameter {name} cannot be empty.")

    def malformed(self, name: str) -> Refusal:
        return Refusal("51000", f"Parameter {name} error.")


def parameters_of(request: VenueRequest) -> OkxParameters:
    """The query of a GET, the JSON body of anything else."""
    if request.method == "GET":
        return OkxParameters(dict(parse_qsl(request.query, keep_blank_values=True)))
    try:
        values = json.loads(request.body) if request.body else {}
    except ValueError:
        raise Refusal("50002", "JSON syntax error.") from None
    if not isinstance(values, dict):
        raise Refusal("50002", "JSON syntax error.")
    return OkxParameters(values)


def authenticate(request: VenueRequest, config: VenueConfig, now_ms: int) -> OkxParameters:
    """Check headers, clock, key, passphrase and signature, in this order."""
    for header, code in _HEADERS:
        if not request.headers.get(header):
            raise Refusal(code, f'Request header "{header.upper().replace("-", "_")}" cannot be empty.', 401)
    given = request.headers["ok-access-timestamp"]
    if abs(_milliseconds(given) - now_ms) > _LIFETIME_MS:
        raise Refusal("50102", "Timestamp request expired.", 401)
    if not _same(request.headers["ok-access-key"], config.api_key):
        raise Refusal("50111", "Invalid OK-ACCESS-KEY.", 401)
    passphrase = "" if config.api_passphrase is None else config.api_passphrase.get_secret_value()
    if not _same(request.headers["ok-access-passphrase"], passphrase):
        raise Refusal("50105", "Request header OK-ACCESS-PASSPHRASE incorrect.", 401)
    target = f"{request.endpoint}?{request.query}" if request.query else request.endpoint
    signed = given + request.method + target + request.body
    digest = hmac.new(config.api_secret.get_secret_value().encode(), signed.encode(), hashlib.sha256).digest()
    if not _same(request.headers["ok-access-sign"], base64.b64encode(digest).decode()):
        raise Refusal("50113", "Invalid Sign.", 401)
    return parameters_of(request)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _milliseconds(text: str) -> float:
    if not _TIMESTAMP.fullmatch(text):
        raise Refusal("50112", "Invalid OK-ACCESS-TIMESTAMP.", 401)
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000
    except ValueError:
        raise Refusal("50112", "Invalid OK-ACCESS-TIMESTAMP.", 401) from None
