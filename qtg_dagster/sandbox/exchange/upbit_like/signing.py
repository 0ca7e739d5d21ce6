"""Request rules: a JWT with the key, a nonce, and the SHA-512 of what is asked, in the order in which it is asked."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

_DIGESTS = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one of these wires differs from the others in what it signs and checks."""

    hashes_escaped: bool = False  # the hash may be over the query as it is escaped, too
    lifetime_ms: int | None = None  # how long a token is good by its `timestamp`; None = tokens have none
    nonces_once: bool = True  # whether a nonce that was used is refused


class JwtParameters(Parameters):
    """A query, or the fields of a JSON object; numbers are taken as they are written."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(dict(pairs))
        self._pairs = pairs

    def many(self, name: str) -> tuple[str, ...]:
        """The values of a list such as `uuids[]`, which a query names once for each."""
        return tuple(str(value) for known, value in self._pairs if known == f"{name}[]")

    def missing(self, name: str) -> Refusal:
        return Refusal("validation_error", f"{name} is missing", 400)

    def malformed(self, name: str) -> Refusal:
        return Refusal("validation_error", f"{name} does not have a valid value", 400)


def parameters_of(request: VenueRequest) -> JwtParameters:
    """The query of a GET or DELETE, the JSON body of anything else."""
    return JwtParameters(_pairs(request))


def _pairs(request: VenueRequest) -> list[tuple[str, Any]]:
    if request.method in ("GET", "DELETE"):
        return list(parse_qsl(request.query, keep_blank_values=True))
    if not request.body:
        return []
    try:
        sent = json.loads(request.body, parse_int=str, parse_float=str)
    except ValueError:
        raise Refusal("invalid_parameter", "the body is no JSON", 400) from None
    if not isinstance(sent, dict):
        raise Refusal("invalid_parameter", "the body is no JSON object", 400)
    return list(sent.items())


def authenticate(
    request: VenueRequest, config: VenueConfig, scheme: Scheme, nonces: Nonces, now_ms: int
) -> JwtParameters:
    """Check token, key, signature, hash and time, and then use the nonce up: only a rightly signed request can."""
    token, claims = _token(request)
    if not _same(str(claims.get("access_key", "")), config.api_key):
        raise Refusal("invalid_access_key", "The access key is wrong.", 401)
    if not _is_signed(token, config.api_secret.get_secret_value()):
        raise Refusal("jwt_verification", "The JWT could not be verified.", 401)
    pairs = _pairs(request)
    if pairs and not _is_hashed(request, pairs, claims, scheme):
        raise Refusal("invalid_query_payload", "The query of the JWT could not be verified.", 401)
    _check_time(claims, scheme, now_ms)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not nonce:
        raise Refusal("jwt_verification", "The JWT has no nonce.", 401)
    if scheme.nonces_once and not nonces.use(nonce):
        raise Refusal("nonce_used", "The nonce was used before.", 401)
    return JwtParameters(pairs)


def _token(request: VenueRequest) -> tuple[str, Mapping[str, Any]]:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind != "Bearer" or not token:
        raise Refusal("no_authorization_token", "There is no bearer token.", 401)
    try:
        _, claims, _ = token.split(".")
        read = json.loads(_decoded(claims))
    except (ValueError, binascii.Error):
        raise Refusal("jwt_verification", "The JWT could not be read.", 401) from None
    return token, read if isinstance(read, dict) else {}


def _is_signed(token: str, secret: str) -> bool:
    head, claims, signature = token.split(".")
    try:
        digest = _DIGESTS.get(json.loads(_decoded(head)).get("alg"))
        given = _decoded(signature)
    except (ValueError, AttributeError, binascii.Error):
        return False
    if digest is None:
        return False
    return hmac.compare_digest(given, hmac.new(secret.encode(), f"{head}.{claims}".encode(), digest).digest())


def _is_hashed(request: VenueRequest, pairs: list[tuple[str, Any]], claims: Mapping[str, Any], scheme: Scheme) -> bool:
    if claims.get("query_hash_alg") != "SHA512":
        return False
    if request.method in ("GET", "DELETE"):
        plain, escaped = unquote(request.query), request.query
    else:
        plain = "&".join(f"{name}={value}" for name, value in pairs)
        escaped = "&".join(f"{name}={quote(str(value), safe=_UNESCAPED)}" for name, value in pairs)
    asked = [plain, escaped] if scheme.hashes_escaped else [plain]
    given = str(claims.get("query_hash", ""))
    return any(_same(given, hashlib.sha512(text.encode()).hexdigest()) for text in asked)


_UNESCAPED = "~()*!.'"


def _check_time(claims: Mapping[str, Any], scheme: Scheme, now_ms: int) -> None:
    if scheme.lifetime_ms is None:
        return
    told = claims.get("timestamp")
    if not isinstance(told, int) or abs(told - now_ms) > scheme.lifetime_ms:
        raise Refusal("expired_jwt", "The JWT has expired.", 401)


class Nonces:
    """The nonces of one key, kept in the ledger: what was used before a restart stays used."""

    def __init__(self, ledger: Ledger, venue: str) -> None:
        self._ledger = ledger
        self._name = f"nonce:{venue}"

    def use(self, nonce: str) -> bool:
        """Take a nonce; False when it was taken before."""
        name = f"{self._name}:{nonce}"
        if self._ledger.meta(name) is not None:
            return False
        with self._ledger.transaction():
            self._ledger.set_meta(name, "used")
        return True


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
