"""The rules of delivery: what an answer means, when the next attempt is due, when it is given up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: The courier's name in the runtime reference.
CALLBACK_DISPATCHER = "callback_dispatcher"
#: Client errors that may pass: the receiver was slow, not ready, or asked for patience. All others are final.
PASSING_CLIENT_ERRORS = frozenset({408, 425, 429})
#: Answers whose Retry-After is honoured.
PATIENCE_ANSWERS = frozenset({429, 503})


class CallbackStatus(StrEnum):
    """Where a callback stands. `dlq`: nobody tries any more until a person redrives it."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DLQ = "dlq"


class Verdict(StrEnum):
    """What one attempt came to."""

    DELIVERED = "delivered"
    FAILED = "failed"  # another attempt may succeed
    REFUSED = "refused"  # the receiver will not take it; the same again would be refused again


@dataclass(frozen=True, slots=True)
class ClaimedCallback:
    """A callback that one runner delivers, with the bytes that are sent at every attempt."""

    callback_id: int
    claim_epoch: int
    request_id: str
    event_id: str
    event_type: str
    sequence: int
    url: str
    receiver: str
    body: bytes
    timestamp: int
    nonce: str
    attempts: int  # that have failed so far


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one attempt went; `problem` begins with a word that says what kind of failure it was."""

    verdict: Verdict
    status: int | None = None
    problem: str | None = None
    retry_after: float | None = None  # what the receiver asked for, in seconds


@dataclass(frozen=True, slots=True)
class Settlement:
    """What becomes of a callback after an attempt."""

    status: CallbackStatus
    attempts: int
    wait_seconds: float = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """An attempt at a callback, and what becomes of the callback."""

    callback: ClaimedCallback
    attempt: Attempt
    settlement: Settlement


def judge_status(status: int) -> Verdict:
    """What a receiver's status says. A redirect is not followed; it may be repaired, so it is tried again."""
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if 400 <= status < 500 and status not in PASSING_CLIENT_ERRORS:
        return Verdict.REFUSED
    return Verdict.FAILED


def backoff_seconds(attempts: int) -> float:
    """The wait after so many failed attempts: 2, 4, 8, 16, 32, then 64 s."""
    return float(2 ** min(attempts, 6))


def settle(callback: ClaimedCallback, attempt: Attempt, *, max_attempts: int, patience_seconds: float) -> Settlement:
    """What follows from an attempt; a receiver that asks for a longer wait gets it, up to `patience_seconds`."""
    if attempt.verdict is Verdict.DELIVERED:
        return Settlement(CallbackStatus.DELIVERED, callback.attempts)
    failed = callback.attempts + 1
    if attempt.verdict is Verdict.REFUSED or failed >= max_attempts:
        return Settlement(CallbackStatus.DLQ, failed)
    asked = min(attempt.retry_after or 0.0, patience_seconds)
    return Settlement(CallbackStatus.PENDING, failed, max(backoff_seconds(failed), asked))
