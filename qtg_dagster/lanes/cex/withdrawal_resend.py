"""Asking again for a withdrawal that is nowhere on record, under the id that its venue documents to take only once.

The bytes are signed anew and ask for the same: whatever the first request comes to yet, the venue executes one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.contract import ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.lanes.cex.answers import FAILED_LOOK_SECONDS
from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.prepared_order import sendable_order
from qtg_dagster.lanes.cex.travel_rule import sendable_call
from qtg_dagster.lanes.cex.venue import Repeats
from qtg_dagster.lanes.cex.withdrawal_refs import bound_refs, withdrawal_refs

MOST = 3
#: No venue says how long it remembers an id; a day is the least that support desks work with.
REMEMBERED_FOR = timedelta(hours=24)
_REF = "withdrawal_resent"


@dataclass(frozen=True, slots=True)
class Resends:
    """How often, and when last, one request was sent again."""

    client_id: str
    times: int = 0
    last_at: datetime | None = None

    @classmethod
    def from_refs(cls, refs: Mapping[str, Any], client_id: str) -> Resends:
        """What earlier looks recorded; another attempt's record counts for nothing."""
        stored = refs.get(_REF)
        if not isinstance(stored, Mapping) or stored.get("client_id") != client_id:
            return cls(client_id)
        return cls(client_id, int(stored["times"]), datetime.fromisoformat(stored["last_at"]))

    def again(self, now: datetime) -> Resends:
        return Resends(self.client_id, self.times + 1, now)

    def to_refs(self) -> dict[str, Any]:
        """The record as a node keeps it between looks."""
        if self.last_at is None:
            return {}
        return {_REF: {"client_id": self.client_id, "times": self.times, "last_at": self.last_at.isoformat()}}


def may_be_sent_again(withdrawal: Withdrawal) -> bool:
    """Whether the venue promises to take an id once, and the inventory says that this was tried there."""
    account = withdrawal.account
    return account.venue.repeats is Repeats.IDEMPOTENT and account.entry.resend_is_safe


def why_not_again(resends: Resends, prepared_at: datetime, now: datetime) -> str | None:
    """Why a request is not to be sent again any more; None while it is."""
    if resends.times >= MOST:
        return f"asked for {MOST} times more under its id, and not on record"
    if now - prepared_at > REMEMBERED_FOR:
        return "not on record, and too old to be asked for again: the venue may have forgotten its id"
    return None


async def send_again(
    withdrawal: Withdrawal, prepared: PreparedAction, resends: Resends, clock: Clock
) -> ExecutionResult:
    """Send what was prepared once more. UNKNOWN whatever is answered: the record tells what came of it.

    A refusal proves nothing here: what the first request did may be why the second one is refused.
    """
    account = withdrawal.account
    try:
        await account.ready_to_submit(withdrawal.order)
        now = clock.now()
        reply = await account.call(sendable_call(withdrawal, sendable_order(withdrawal, prepared), now))
    except QtgError as problem:  # raised before sending, and only then
        return _asked_again(resends, {}, {"resent": False, "problem": str(problem)}, FAILED_LOOK_SECONDS)
    outcome = decide(reply, account.venue.submit_rules)
    sent = outcome.verdict is not Verdict.NOT_SENT
    given = outcome.withdrawal_id if outcome.verdict is Verdict.ACCEPTED else None
    refs = {} if given is None else {**withdrawal_refs(withdrawal, given), **bound_refs(withdrawal, given)}
    evidence = {"resent": sent, "rule": outcome.reason, **reply.evidence()}
    after = max(FAILED_LOOK_SECONDS, account.entry.settle_seconds)
    return _asked_again(resends.again(now) if sent else resends, refs, evidence, after)


def _asked_again(
    resends: Resends, refs: Mapping[str, Any], evidence: Mapping[str, Any], after: float
) -> ExecutionResult:
    return ExecutionResult(
        status=ResultStatus.UNKNOWN,
        provider_refs={**refs, **resends.to_refs()},
        error_code="ASKED_AGAIN",
        error_message=f"asked for again under the id {resends.client_id}, which the venue takes once",
        retry_after_seconds=after,
        evidence={"client_id": resends.client_id, "resends": resends.times, **evidence},
    )
