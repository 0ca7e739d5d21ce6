"""For receivers of QTG's callbacks: is this request from QTG, and what does it tell? Needs the standard library alone.

Copy this file into a service, or import it, and call `verify` with the headers and the body *as they arrived*:

    from qtg_dagster.callbacks.verify import CallbackRejected, verify

    try:
        told = verify(request.headers, request.body, [CURRENT_SECRET, PREVIOUS_SECRET])
    except CallbackRejected:
        return 401
    if told.event_id not in seen:      # delivery is at least once: keep what you have acted on
        act_on(told.event)             # told.event["sequence"] counts up within one movement
    return 204

Every request carries two signatures over the same body, and either is enough:

* Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`): made anew at every attempt, so a timestamp
  that is minutes old is refused here. `verify` reads these.
* v3 (`X-QTG-Callback-*`): the same timestamp and nonce at every attempt of one callback, so that a receiver can tell a
  repetition by its nonce. It may be days old when a callback is redriven, which is why `verify_v3` sets no limit to its
  age unless asked to, and why whoever relies on it alone must remember nonces.

While a secret is being replaced, give both: the new one first. The order does not matter for the outcome.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: Seconds that a Standard Webhooks timestamp may be off, either way.
TOLERANCE_SECONDS = 300
MIN_KEY_BYTES = 24
_DIGITS = re.compile(r"[0-9]{1,15}")
_HEX = re.compile(r"[0-9a-f]{64}")


class CallbackRejected(Exception):
    """The request must not be believed; answer 401 and do nothing. Its subclasses say why."""


class HeaderMissing(CallbackRejected):
    """A header that every callback has is not there, or is not of its form."""


class UnknownVersion(CallbackRejected):
    """Signed in a way that this verifier does not know."""


class TimestampOutsideTolerance(CallbackRejected):
    """Too old, or from the future: somebody repeats a request, or a clock is wrong."""


class SignatureMismatch(CallbackRejected):
    """None of the secrets made any of the signatures for this body."""


class BodyUnreadable(CallbackRejected):
    """Rightly signed, and not a JSON object."""


@dataclass(frozen=True)
class VerifiedCallback:
    """What QTG told."""

    event_id: str  # the same at every attempt, redrive and resend: act once on each
    timestamp: int  # of this attempt, seconds since 1970
    event: dict[str, Any]  # the body


@dataclass(frozen=True)
class VerifiedV3:
    """What QTG told, by the v3 headers."""

    timestamp: int  # of the event, the same at every attempt
    nonce: str  # the same at every attempt
    event: dict[str, Any]  # the body


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Iterable[str],
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> VerifiedCallback:
    """Verify by the Standard Webhooks headers; raises a `CallbackRejected`, `ValueError` for a secret that is none."""
    given = _lower(headers)
    event_id, timestamp = _need(given, "webhook-id"), _seconds(given, "webhook-timestamp")
    signatures = [each.partition(",") for each in _need(given, "webhook-signature").split(" ")]
    known = [signature for version, _, signature in signatures if version == "v1"]
    if not known:
        raise UnknownVersion("webhook-signature has no v1 signature")
    # Before the age: an attacker learns nothing, and an owner with a wrong clock learns that the secret is right.
    expected = [standard_signature(key_of(secret), event_id, timestamp, body) for secret in secrets]
    _match(expected, known)
    _check_age(timestamp, tolerance_seconds, now)
    return VerifiedCallback(event_id, timestamp, _event(body))


def verify_v3(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Iterable[str],
    *,
    tolerance_seconds: float | None = None,
    now: float | None = None,
) -> VerifiedV3:
    """Verify by the v3 headers; raises as `verify` does. Without a tolerance, remember nonces."""
    given = _lower(headers)
    version = _need(given, "x-qtg-callback-signature-version")
    if version != "v3":
        raise UnknownVersion(f"signature version {version!r}")
    timestamp, nonce = _seconds(given, "x-qtg-callback-timestamp"), _need(given, "x-qtg-callback-nonce")
    signature = _need(given, "x-qtg-callback-signature")
    if not _HEX.fullmatch(signature):
        raise HeaderMissing("x-qtg-callback-signature is not 64 hex digits")
    _match([v3_signature(key_of(secret), timestamp, nonce, body) for secret in secrets], [signature])
    if tolerance_seconds is not None:
        _check_age(timestamp, tolerance_seconds, now)
    return VerifiedV3(timestamp, nonce, _event(body))


def key_of(secret: str) -> bytes:
    """The key that a secret stands for: base64 behind `whsec_`, else the text's own bytes. At least 24 bytes.

    Raises `ValueError`, which names no part of the secret.
    """
    if secret.startswith("whsec_"):
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise ValueError("a callback secret begins with whsec_, and what follows is not base64") from None
    else:
        key = secret.encode()
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"a callback secret is {len(key)} bytes long; it needs {MIN_KEY_BYTES}")
    return key


def standard_signature(key: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """Base64 of HMAC-SHA256 over `id.timestamp.body`."""
    signed = hmac.digest(key, f"{event_id}.{timestamp}.".encode() + body, "sha256")
    return base64.b64encode(signed).decode()


def v3_signature(key: bytes, timestamp: int, nonce: str, body: bytes) -> str:
    """Hex of HMAC-SHA256 over timestamp, nonce and the body's SHA-256 in hex, a line each."""
    message = f"{timestamp}\n{nonce}\n{hashlib.sha256(body).hexdigest()}"
    return hmac.digest(key, message.encode(), "sha256").hex()


def _match(expected: list[str], given: list[str]) -> None:
    """Compare every pair, so that the time taken says nothing."""
    if not expected:
        raise ValueError("no secret to verify with")
    matches = [hmac.compare_digest(ours.encode(), theirs.encode()) for ours in expected for theirs in given]
    if not any(matches):
        raise SignatureMismatch("no secret made any of the signatures for this body")


def _check_age(timestamp: int, tolerance_seconds: float, now: float | None) -> None:
    age = (time.time() if now is None else now) - timestamp
    if abs(age) > tolerance_seconds:
        way = "old" if age > 0 else "in the future"
        raise TimestampOutsideTolerance(f"the timestamp is {abs(age):.0f} s {way}")


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _need(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name, "")
    if not value:
        raise HeaderMissing(f"{name} is missing")
    return value


def _seconds(headers: Mapping[str, str], name: str) -> int:
    text = _need(headers, name)
    if not _DIGITS.fullmatch(text):
        raise HeaderMissing(f"{name} is not a number of seconds")
    return int(text)


def _event(body: bytes) -> dict[str, Any]:
    try:
        event = json.loads(body)
    except ValueError as error:
        raise BodyUnreadable(str(error)) from None
    if not isinstance(event, dict):
        raise BodyUnreadable("the body is not a JSON object")
    return event
