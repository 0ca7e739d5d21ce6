"""What a reply to a withdrawal request proves. Pure: the first rule that fits decides, and doubt is UNKNOWN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from qtg_dagster.lanes.cex.reply import RawReply

_UNDECIDED_STATUSES = frozenset({408, 409, 425, 499})


class Verdict(StrEnum):
    """What may be concluded about a withdrawal request."""

    NOT_SENT = "NOT_SENT"
    REJECTED = "REJECTED"
    ACCEPTED = "ACCEPTED"
    UNKNOWN = "UNKNOWN"
    DUPLICATE = "DUPLICATE"  # the venue knows this client id already: look it up


@dataclass(frozen=True, slots=True)
class SubmitBody:
    """A venue's answer to a withdrawal request in common terms; `withdrawal_id` still as the venue wrote it."""

    error_code: str | None = None
    message: str = ""
    withdrawal_id: Any = None
    success: bool = False


@dataclass(frozen=True, slots=True)
class SubmitRules:
    """One venue's vocabulary for its withdrawal endpoint."""

    read: Callable[[Any], SubmitBody]
    refusals: frozenset[str]  # codes that are given before a withdrawal is taken, and only then
    confirm_first: frozenset[str] = frozenset()  # refusals that a replayed copy of an accepted request gets too
    duplicate_codes: frozenset[str] = frozenset()
    duplicate_texts: tuple[str, ...] = ()  # lower case


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict with its reason. `withdrawal_id` beside UNKNOWN is a hint, not a proof."""

    verdict: Verdict
    reason: str
    withdrawal_id: str | None = None
    error_code: str | None = None
    confirm_first: bool = False


def decide(reply: RawReply, rules: SubmitRules) -> Outcome:
    """Judge one reply. REJECTED needs a listed code in readable JSON under 2xx or 4xx, NOT_SENT an unsent request."""
    if not reply.sent:
        return Outcome(Verdict.NOT_SENT, "no byte left this machine", error_code="NOT_SENT")
    if reply.status is None:
        return Outcome(Verdict.UNKNOWN, "sent, and no answer came", error_code="NO_ANSWER")
    if reply.json is None:
        return Outcome(Verdict.UNKNOWN, "the answer's body is not readable", error_code="UNREADABLE")
    if not _is_decided(reply.status):
        return Outcome(Verdict.UNKNOWN, f"HTTP {reply.status} decides nothing", error_code=f"HTTP_{reply.status}")
    return _decide_body(reply.status, rules.read(reply.json), rules)


def usable_id(value: Any) -> str | None:
    """The id as text; None for null, false, 0, blanks and whatever is not a plain name or number."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    text = str(value).strip()
    if not text.strip("0.-") or text.lower() in {"null", "none", "undefined", "false", "true"}:
        return None
    return text


def _is_decided(status: int) -> bool:
    return 200 <= status < 300 or (400 <= status < 500 and status not in _UNDECIDED_STATUSES)


def _decide_body(status: int, body: SubmitBody, rules: SubmitRules) -> Outcome:
    found, code = usable_id(body.withdrawal_id), body.error_code
    text = body.message.lower()
    if code in rules.duplicate_codes or any(part in text for part in rules.duplicate_texts):
        return Outcome(Verdict.DUPLICATE, "the venue knows this request already", found, code or "DUPLICATE")
    if code is not None and found is not None:
        return Outcome(Verdict.UNKNOWN, "the answer carries both an error and an id", found, code)
    if code is not None and code in rules.refusals:
        return Outcome(Verdict.REJECTED, body.message, None, code, confirm_first=code in rules.confirm_first)
    if 200 <= status < 300 and body.success and found is not None:
        return Outcome(Verdict.ACCEPTED, "accepted with an id", found)
    return Outcome(Verdict.UNKNOWN, body.message or "no listed refusal and no id", found, code or f"HTTP_{status}")
