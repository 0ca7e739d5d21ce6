"""Coinbase's request rules: a JWT in ES256, made anew for one method, host and path, good for two minutes."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qsl

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

_SCHEMES = ("", "https://", "http://")
_SLACK_SECONDS = 30
_LIFETIME_SECONDS = 120


class CoinbaseParameters(Parameters):
    """A query, or the fields of a JSON object; every value is text."""

    def missing(self, name: str) -> Refusal:
        return Refusal("param_required", f"{name} is required")

    def malformed(self, name: str) -> Refusal:
        return Refusal("validation_error", f"Please enter a valid {name}")


def parameters_of(request: VenueRequest) -> CoinbaseParameters:
    """The query of a GET, the JSON body of anything else."""
    if request.method == "GET":
        return CoinbaseParameters(dict(parse_qsl(request.query, keep_blank_values=True)))
    try:
        values = json.loads(request.body) if request.body else {}
    except ValueError:
        raise Refusal("invalid_request", "The request is not JSON") from None
    if not isinstance(values, dict):
        raise Refusal("invalid_request", "The request is not an object")
    return CoinbaseParameters(values)


def public_key(config: VenueConfig, place: str) -> ec.EllipticCurvePublicKey:
    """The public half of the configured key; raises `ConfigurationError` for what is no P-256 key in PEM."""
    try:
        key = load_pem_private_key(config.api_secret.get_secret_value().encode(), password=None)
    except ValueError:
        raise ConfigurationError(f"{place}.api_secret: not a private key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError(f"{place}.api_secret: not a key of the curve P-256")
    return key.public_key()


def authenticate(
    request: VenueRequest, config: VenueConfig, key: ec.EllipticCurvePublicKey, venue_key: str, now_ms: int
) -> CoinbaseParameters:
    """Check token, key, signature, times and what the token was made for, in this order."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    parts = token.split(".")
    if scheme != "Bearer" or len(parts) != 3:
        raise _unauthorized("no token")
    header, claims = _read(parts[0]), _read(parts[1])
    if header.get("kid") != config.api_key or claims.get("sub") != config.api_key:
        raise _unauthorized("invalid api key")
    if header.get("alg") != "ES256" or not header.get("nonce"):
        raise _unauthorized("invalid token header")
    _verify(key, f"{parts[0]}.{parts[1]}", _bytes(parts[2]))
    begins, ends = claims.get("nbf"), claims.get("exp")
    if claims.get("iss") != "coinbase-cloud" or claims.get("aud") != ["retail_rest_api_proxy"]:
        raise _unauthorized("the token was made for another service")
    if type(begins) is not int or type(ends) is not int or not 0 < ends - begins <= _LIFETIME_SECONDS:
        raise _unauthorized("invalid token times")
    if not begins - _SLACK_SECONDS <= now_ms / 1000 < ends:
        raise _unauthorized("request timestamp expired")
    where = f"{request.headers.get('host', '')}/{venue_key}{request.endpoint}"
    if claims.get("uri") not in [f"{request.method} {scheme}{where}" for scheme in _SCHEMES]:
        raise _unauthorized("the token was made for another request")
    return parameters_of(request)


def _verify(key: ec.EllipticCurvePublicKey, signed: str, signature: bytes) -> None:
    if len(signature) != 64:
        raise _unauthorized("invalid signature")
    pair = encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
    try:
        key.verify(pair, signed.encode(), ec.ECDSA(SHA256()))
    except InvalidSignature:
        raise _unauthorized("invalid signature") from None


def _read(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_bytes(part))
    except ValueError:
        raise _unauthorized("no token") from None
    if not isinstance(found, dict):
        raise _unauthorized("no token")
    return found


def _bytes(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise _unauthorized("no token") from None


def _unauthorized(message: str) -> Refusal:
    return Refusal("authentication_error", message, 401)
