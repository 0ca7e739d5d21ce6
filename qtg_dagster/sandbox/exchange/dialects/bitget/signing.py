"""Bitget's request rules: four headers, HMAC-SHA256 in base64 over time, method, path and body, 30 s, JSON."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from urllib.parse import parse_qsl, unquote

from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

_LIFETIME_MS = 30_000
_TIMESTAMP = re.compile(r"[0-9]{1,15}")
_HEADERS = (
    ("access-key", "40001", "ACCESS_KEY cannot be empty"),
    ("access-sign", "40003", "Signature cannot be empty"),
    ("access-timestamp", "40005", "Invalid ACCESS_TIMESTAMP"),
    ("access-passphrase", "40011", "ACCESS_PASSPHRASE cannot be empty"),
)


class BitgetParameters(Parameters):
    """A query, or the fields of a JSON object; every value is text."""

    def missing(self, name: str) -> Refusal:
        return Refusal("40019", f"Parameter {name} cannot be empty")

    def malformed(self, name: str) -> Refusal:
        return Refusal("40020", f"Parameter {name} error")


def parameters_of(request: VenueRequest) -> BitgetParameters:
    """The query of a GET, the JSON body of anything else."""
    if request.method == "GET":
        return BitgetParameters(dict(parse_qsl(request.query, keep_blank_values=True)))
    try:
        values = json.loads(request.body) if request.body else {}
    except ValueError:
        raise Refusal("40409", "wrong format") from None
    if not isinstance(values, dict):
        raise Refusal("40409", "wrong format")
    return BitgetParameters(values)


def authenticate(request: VenueRequest, config: VenueConfig, now_ms: int) -> BitgetParameters:
    """Check headers, clock, key, passphrase and signature, in this order."""
    for header, code, words in _HEADERS:
        if not request.headers.get(header):
            raise Refusal(code, words)
    if request.method == "POST" and not request.headers.get("content-type", "").startswith("application/json"):
        raise Refusal("40007", "Invalid Content_Type")
    given = request.headers["access-timestamp"]
    if not _TIMESTAMP.fullmatch(given):
        raise Refusal("40005", "Invalid ACCESS_TIMESTAMP")
    if abs(int(given) - now_ms) > _LIFETIME_MS:
        raise Refusal("40008", "Request timestamp expired")
    if not _same(request.headers["access-key"], config.api_key):
        raise Refusal("40037", "Apikey does not exist")
    passphrase = "" if config.api_passphrase is None else config.api_passphrase.get_secret_value()
    if not _same(request.headers["access-passphrase"], passphrase):
        raise Refusal("40012", "apikey/password is incorrect")
    # What is signed is the query as it reads, not as it is escaped.
    target = f"{request.endpoint}?{unquote(request.query)}" if request.query else request.endpoint
    signed = given + request.method + target + request.body
    digest = hmac.new(config.api_secret.get_secret_value().encode(), signed.encode(), hashlib.sha256).digest()
    if not _same(request.headers["access-sign"], base64.b64encode(digest).decode()):
        raise Refusal("40009", "sign signature error")
    return parameters_of(request)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
