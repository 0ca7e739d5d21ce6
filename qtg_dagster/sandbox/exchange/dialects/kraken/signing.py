"""Kraken's request rules: HMAC-SHA512 over path and SHA-256 of nonce and body, and a nonce that only ever rises."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from typing import Any
from urllib.parse import parse_qsl

from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

_NONCE = re.compile(r"[0-9]{1,20}")


def refused(error: str) -> Refusal:
    """A refusal as Kraken sends all of them: with HTTP 200."""
    return Refusal(error, status=200)


class KrakenParameters(Parameters):
    """A form, or the fields of a JSON object; numbers are taken as they are written."""

    def missing(self, name: str) -> Refusal:
        return refused(f"EGeneral:Invalid arguments:{name}")

    def malformed(self, name: str) -> Refusal:
        return refused(f"EGeneral:Invalid arguments:{name}")


def parameters_of(request: VenueRequest) -> KrakenParameters:
    """Query and body together."""
    values: dict[str, Any] = dict(parse_qsl(request.query, keep_blank_values=True))
    if request.body.startswith("{"):
        try:
            sent = json.loads(request.body, parse_int=str, parse_float=str)
        except ValueError:
            raise refused("EGeneral:Invalid arguments") from None
        values |= {name: str(value).lower() if isinstance(value, bool) else value for name, value in sent.items()}
    else:
        values |= dict(parse_qsl(request.body, keep_blank_values=True))
    return KrakenParameters(values)


def authenticate(request: VenueRequest, config: VenueConfig, nonces: Nonces) -> KrakenParameters:
    """Check key and signature, and then use the nonce up: only a rightly signed request can."""
    if not _same(request.headers.get("api-key", ""), config.api_key):
        raise refused("EAPI:Invalid key")
    parameters = parameters_of(request)
    nonce = parameters.text("nonce") or ""
    digest = hashlib.sha256((nonce + request.body).encode()).digest()
    secret = base64.b64decode(config.api_secret.get_secret_value())
    expected = hmac.new(secret, request.endpoint.encode() + digest, hashlib.sha512).digest()
    if not _same(request.headers.get("api-sign", ""), base64.b64encode(expected).decode()):
        raise refused("EAPI:Invalid signature")
    if not _NONCE.fullmatch(nonce) or not nonces.use(int(nonce)):
        raise refused("EAPI:Invalid nonce")
    return parameters


class Nonces:
    """The highest nonce of one key, kept in the ledger: what was used before a restart stays used."""

    def __init__(self, ledger: Ledger, venue: str) -> None:
        self._ledger = ledger
        self._name = f"nonce:{venue}"

    def use(self, nonce: int) -> bool:
        """Take a nonce; False when it is not above all that were taken."""
        if nonce <= int(self._ledger.meta(self._name) or 0):
            return False
        with self._ledger.transaction():
            self._ledger.set_meta(self._name, str(nonce))
        return True


def is_base64(secret: str) -> bool:
    try:
        return bool(base64.b64decode(secret, validate=True))
    except binascii.Error:
        return False


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
