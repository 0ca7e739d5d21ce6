"""KuCoin's request rules: five headers, HMAC-SHA256 in base64 over time, method, path and body, five seconds, JSON."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from urllib.parse import parse_qsl, unquote

from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

_LIFETIME_MS = 5_000
_TIMESTAMP = re.compile(r"[0-9]{1,15}")
_HEADERS = ("kc-api-key", "kc-api-sign", "kc-api-timestamp", "kc-api-passphrase")
_VERSIONS = ("2", "3")  # the passphrase comes encrypted in both


class KucoinParameters(Parameters):
    """A query, or the fields of a JSON object; every value is text."""

    def missing(self, name: str) -> Refusal:
        return Refusal("400100", f"{name} is required")

    def malformed(self, name: str) -> Refusal:
        return Refusal("400100", f"{name} is invalid")


def parameters_of(request: VenueRequest) -> KucoinParameters:
    """The query of a GET, the JSON body of anything else."""
    if request.method == "GET":
        return KucoinParameters(dict(parse_qsl(request.query, keep_blank_values=True)))
    try:
        values = json.loads(request.body)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise Refusal("400100", "Parameter Error")
    return KucoinParameters(values)


def authenticate(request: VenueRequest, config: VenueConfig, now_ms: int) -> KucoinParameters:
    """Check headers, the key's version, clock, key, signature and passphrase, in this order.

    The secret encrypts the passphrase too: with a wrong one it is the signature that is refused.
    """
    for header in _HEADERS:
        if not request.headers.get(header):
            raise Refusal("400001", "Please check the URL of your request.", 401)
    version = request.headers.get("kc-api-key-version") or "1"
    if version == "1":
        raise Refusal("400008", "V1 API keys are no longer supported. Please create a V3 API key.", 401)
    if version not in _VERSIONS:
        raise Refusal("400009", "Invalid KC-API-KEY-VERSION.", 401)
    given = request.headers["kc-api-timestamp"]
    if not _TIMESTAMP.fullmatch(given) or abs(int(given) - now_ms) > _LIFETIME_MS:
        raise Refusal("400002", "Invalid KC-API-TIMESTAMP.", 401)
    if not _same(request.headers["kc-api-key"], config.api_key):
        raise Refusal("400003", "KC-API-KEY does not exist.", 401)
    target = f"{request.endpoint}?{unquote(request.query)}" if request.query else request.endpoint
    if not _same(request.headers["kc-api-sign"], _signed(config, given + request.method + target + request.body)):
        raise Refusal("400005", "Invalid KC-API-SIGN.", 401)
    passphrase = "" if config.api_passphrase is None else config.api_passphrase.get_secret_value()
    if not _same(request.headers["kc-api-passphrase"], _signed(config, passphrase)):
        raise Refusal("400004", "Invalid KC-API-PASSPHRASE.", 401)
    return parameters_of(request)


def _signed(config: VenueConfig, text: str) -> str:
    secret = config.api_secret.get_secret_value().encode()
    return base64.b64encode(hmac.new(secret, text.encode(), hashlib.sha256).digest()).decode()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
