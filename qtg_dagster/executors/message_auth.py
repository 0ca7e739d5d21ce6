"""Signatures over what goes between QTG and a service of its own: HMAC-SHA256 with a secret that both hold.

A request's signature covers method, path, timestamp, nonce, idempotency key and body; an answer's covers the nonce of
the request it answers, the HTTP status and the body. The two have different first lines, so neither passes for the
other. The same lines in any language: joined by a line feed, hashed with the secret, written in lower-case hex.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.secret import Secret

TIMESTAMP_HEADER = "QTG-Timestamp"
NONCE_HEADER = "QTG-Nonce"
SIGNATURE_HEADER = "QTG-Signature"
IDEMPOTENCY_HEADER = "Idempotency-Key"

_REQUEST, _ANSWER = "qtg-request-v1", "qtg-answer-v1"
_SCHEME = "v1="
_LEAST_SECRET_BYTES = 32
_ONE_LINE = re.compile(r"[\x21-\x7e]{0,512}")
NONCE_SHAPE = re.compile(r"[0-9a-f]{32}")


def new_nonce() -> str:
    """32 hex digits that nobody has used before."""
    return secrets.token_hex(16)


def check_secret(secret: Secret, what: str) -> Secret:
    """The secret itself; raises `ConfigurationError` when it is too short to sign with."""
    if len(secret.expose().encode()) < _LEAST_SECRET_BYTES:
        raise ConfigurationError(f"{what}: shorter than {_LEAST_SECRET_BYTES} bytes; use the output of a generator")
    return secret


def request_headers(
    secret: Secret, *, method: str, path: str, timestamp: int, nonce: str, idempotency_key: str, body: bytes
) -> dict[str, str]:
    """Headers that make a request ours; raises `ValueError` for a path or key that is not one printable line.

    `timestamp` is in Unix milliseconds; an empty `idempotency_key` means that the request has none.
    """
    signature = _request_signature(secret, method, path, str(timestamp), nonce, idempotency_key, body)
    headers = {TIMESTAMP_HEADER: str(timestamp), NONCE_HEADER: nonce, SIGNATURE_HEADER: _SCHEME + signature}
    return {**headers, IDEMPOTENCY_HEADER: idempotency_key} if idempotency_key else headers


def request_is_signed(secret: Secret, *, method: str, path: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the headers sign exactly this request. Says nothing about its age, or whether it came before.

    `headers` finds names whatever their case, as web frameworks' mappings do.
    """
    said = headers.get(SIGNATURE_HEADER, "")
    stamped, nonce = headers.get(TIMESTAMP_HEADER, ""), headers.get(NONCE_HEADER, "")
    try:
        right = _request_signature(secret, method, path, stamped, nonce, headers.get(IDEMPOTENCY_HEADER, ""), body)
    except ValueError:
        return False
    return _same(_SCHEME + right, said)


def answer_headers(secret: Secret, *, nonce: str, status: int, body: bytes) -> dict[str, str]:
    """Headers that bind an answer to the request with this nonce."""
    return {SIGNATURE_HEADER: _SCHEME + _answer_signature(secret, nonce, status, body)}


def answer_is_signed(secret: Secret, *, nonce: str, status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the service that knows the secret gave this very answer to the request with this nonce."""
    return _same(_SCHEME + _answer_signature(secret, nonce, status, body), headers.get(SIGNATURE_HEADER, ""))


def _request_signature(
    secret: Secret, method: str, path: str, timestamp: str, nonce: str, idempotency_key: str, body: bytes
) -> str:
    lines = (_REQUEST, method, path, timestamp, nonce, idempotency_key, hashlib.sha256(body).hexdigest())
    return _mac(secret, lines)


def _answer_signature(secret: Secret, nonce: str, status: int, body: bytes) -> str:
    return _mac(secret, (_ANSWER, nonce, str(status), hashlib.sha256(body).hexdigest()))


def _mac(secret: Secret, lines: tuple[str, ...]) -> str:
    for line in lines:
        if not _ONE_LINE.fullmatch(line):
            raise ValueError(f"{line[:80]!r} cannot be signed: it must be one line of printable ASCII without spaces")
    return hmac.new(secret.expose().encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()


def _same(right: str, said: str) -> bool:
    """Compared in constant time; as bytes, because a stranger's header may hold anything."""
    return hmac.compare_digest(right.encode(), said.encode("utf-8", "replace"))
