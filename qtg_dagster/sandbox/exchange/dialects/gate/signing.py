"""Gate's request rules: three headers, HMAC-SHA512 over method, path, query, hashed body and time; sixty seconds."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from decimal import Decimal
from urllib.parse import parse_qsl, unquote

from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

_LIFETIME_MS = 60_000
_TIMESTAMP = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_HEADERS = ("key", "timestamp", "sign")


class GateParameters(Parameters):
    """A query, or the fields of a JSON object; every value is text."""

    def missing(self, name: str) -> Refusal:
        return Refusal("MISSING_REQUIRED_PARAM", f"Missing required parameter: {name}")

    def malformed(self, name: str) -> Refusal:
        return Refusal("INVALID_PARAM_VALUE", f"Invalid parameter: {name}")


def parameters_of(request: VenueRequest) -> GateParameters:
    """The query of a GET, the JSON body of anything else."""
    if request.method == "GET":
        return GateParameters(dict(parse_qsl(request.query, keep_blank_values=True)))
    try:
        values = json.loads(request.body)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise Refusal("INVALID_REQUEST_BODY", "Invalid request body")
    return GateParameters(values)


def authenticate(request: VenueRequest, config: VenueConfig, now_ms: int) -> GateParameters:
    """Check headers, key, clock and signature, in this order. What is signed of the query is its unescaped text."""
    for header in _HEADERS:
        if not request.headers.get(header):
            raise Refusal("MISSING_REQUIRED_HEADER", f"Missing required header: {header.upper()}", 401)
    if not _same(request.headers["key"], config.api_key):
        raise Refusal("INVALID_KEY", "Invalid key provided", 401)
    given = request.headers["timestamp"]
    if not _TIMESTAMP.fullmatch(given) or abs(Decimal(given) * 1000 - now_ms) > _LIFETIME_MS:
        raise Refusal("REQUEST_EXPIRED", "gap between request Timestamp and server time exceeds 60", 401)
    body = hashlib.sha512(request.body.encode()).hexdigest()
    signed = "\n".join((request.method, request.endpoint, unquote(request.query), body, given))
    secret = config.api_secret.get_secret_value().encode()
    if not _same(request.headers["sign"], hmac.new(secret, signed.encode(), hashlib.sha512).hexdigest()):
        raise Refusal("INVALID_SIGNATURE", "Signature mismatch", 401)
    return parameters_of(request)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
