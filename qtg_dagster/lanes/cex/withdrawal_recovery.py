"""What became of a withdrawal request: found on record by the venue's rule, proven absent, or still unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.lanes.cex.answers import for_operator
from qtg_dagster.lanes.cex.attention import look_at
from qtg_dagster.lanes.cex.destinations import PaymentWitness, Shown, with_destinations
from qtg_dagster.lanes.cex.fingerprint import Fit, Trace, fitting
from qtg_dagster.lanes.cex.histories import (
    MARGIN,
    with_their_ends,
    withdrawals_between,
    withdrawals_by_client_id,
    withdrawals_by_ids,
)
from qtg_dagster.lanes.cex.matching import differences, differing_terms, transaction_hash
from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.shown import shown_rows
from qtg_dagster.lanes.cex.travel_rule import refuse_wrong_record
from qtg_dagster.lanes.cex.venue import CoinBalance, Identity, Order, RowState, Venue, Window, WithdrawalRow
from qtg_dagster.lanes.cex.withdrawal_refs import BOUND, withdrawal_refs
from qtg_dagster.lanes.cex.withdrawal_resend import Resends

PREPARED_AT = "withdrawal_prepared_at"
EXPIRES_AT = "withdrawal_expires_at"
BALANCE_BEFORE = "withdrawal_balance_before"
SEEN_BEFORE = "withdrawals_seen_before"


@dataclass(frozen=True, slots=True)
class Attempt:
    """When one attempt can have been sent, and what the wallet held before."""

    prepared_at: datetime
    expires_at: datetime
    balance_before: CoinBalance
    seen_before: frozenset[str] = frozenset()
    sent_again_at: datetime | None = None

    @classmethod
    def of(cls, context: ExecutionContext, coin: str) -> Attempt | None:
        """What `prepare` wrote down for this attempt; None when it was never prepared."""
        if context.prepared is None:
            return None
        refs = context.prepared.provider_refs
        before = refs[BALANCE_BEFORE]
        return cls(
            datetime.fromisoformat(refs[PREPARED_AT]),
            datetime.fromisoformat(refs[EXPIRES_AT]),
            CoinBalance(coin, Decimal(before["free"]), Decimal(before["locked"]), Decimal(before["withdrawing"])),
            frozenset(refs.get(SEEN_BEFORE, ())),
            Resends.from_refs(context.node_refs, str(refs.get("withdrawal_client_id"))).last_at,
        )

    def last_moment(self, venue: Venue) -> datetime | None:
        """Until when a request for it can be taken; None when no end is known."""
        last = max(self.expires_at, self.sent_again_at or self.expires_at)
        return None if venue.request_lifetime is None else last + venue.request_lifetime

    def trace(self, withdrawal: Withdrawal) -> Trace:
        """What the request looks like on the record."""
        last_moment = self.last_moment(withdrawal.account.venue)
        return Trace(withdrawal.order, self.prepared_at, last_moment, self.seen_before)

    def look_at(self, withdrawal: Withdrawal) -> str:
        """What a person has to look at."""
        return look_at(withdrawal, self.prepared_at, self.last_moment(withdrawal.account.venue))


def balance_refs(balance: CoinBalance) -> dict[str, str]:
    """A balance as refs keep it."""
    return {"free": f"{balance.free:f}", "locked": f"{balance.locked:f}", "withdrawing": f"{balance.withdrawing:f}"}


def not_prepared() -> ExecutionResult:
    """Nothing is known to look for."""
    return for_operator("NOT_PREPARED", "this attempt has no prepared action: look at the venue by hand", {})


async def seen_before(withdrawal: Withdrawal, now: datetime) -> list[str]:
    """Rows on record that one could take for this withdrawal, though it is yet to be sent. Raises `LookupFailed`."""
    account, order = withdrawal.account, withdrawal.order
    rows = await withdrawals_between(account, order.coin, Window(now - MARGIN, now + MARGIN))
    return sorted(row.withdrawal_id for row in rows if not differing_terms(order, row, account.venue))


async def look_up(
    withdrawal: Withdrawal,
    attempt: Attempt,
    node_refs: Mapping[str, Any],
    now: datetime,
    payments: PaymentWitness | None = None,
) -> ExecutionResult | None:
    """What the venue's record says of this withdrawal; None when it is not on record. Raises `LookupFailed`."""
    account, order = withdrawal.account, withdrawal.order
    refuse_wrong_record(account, order)
    if account.venue.identity is Identity.SEARCHABLE:
        return judge_rows(
            withdrawal, await withdrawals_by_client_id(account, order.client_id, order.coin, attempt.prepared_at, now)
        )
    seen = None
    if account.venue.identity is Identity.ON_ROWS:
        seen = await _since(withdrawal, attempt, now)
        named = tuple(row for row in seen if row.client_id == order.client_id)
        if named:
            return judge_rows(withdrawal, await with_their_ends(account, named, now))
    bound = node_refs.get(BOUND)
    if isinstance(bound, Mapping) and bound.get("client_id") == order.client_id:
        rows = await withdrawals_by_ids(account, [str(bound["withdrawal_id"])], order.coin, now)
        verdict = judge_bound(withdrawal, attempt, rows)
        if verdict is None or verdict.status is ResultStatus.UNKNOWN or not account.venue.takes_copies:
            return verdict
        shown = await _shown(withdrawal, attempt, seen or await _since(withdrawal, attempt, now), payments)
        return shown.beside(judge_copies(withdrawal, attempt, rows, shown.rows)) or verdict
    if seen is not None:
        return judge_unnamed(withdrawal, attempt, seen)
    shown = await _shown(withdrawal, attempt, await _since(withdrawal, attempt, now), payments)
    return shown.beside(judge_fit(withdrawal, attempt, shown.rows))


async def _since(withdrawal: Withdrawal, attempt: Attempt, now: datetime) -> tuple[WithdrawalRow, ...]:
    window = Window(attempt.prepared_at - MARGIN, now + MARGIN)
    return await withdrawals_between(withdrawal.account, withdrawal.order.coin, window)


async def _shown(
    withdrawal: Withdrawal, attempt: Attempt, rows: tuple[WithdrawalRow, ...], payments: PaymentWitness | None
) -> Shown:
    trace, venue = attempt.trace(withdrawal), withdrawal.account.venue
    return await with_destinations(withdrawal, rows, lambda row: trace.could_be(row, venue), payments)


def judge_bound(withdrawal: Withdrawal, attempt: Attempt, rows: tuple[WithdrawalRow, ...]) -> ExecutionResult | None:
    """The verdict of the row under the id that the venue answered with, unless it cannot be what was asked for."""
    strange = [row for row in rows if not attempt.trace(withdrawal).could_be(row, withdrawal.account.venue)]
    if not strange:
        return judge_rows(withdrawal, rows, differing_terms)
    message = f"the venue answered with the id of another withdrawal. {attempt.look_at(withdrawal)}"
    return for_operator("OTHER_ON_RECORD", message, {"rows": shown_rows(strange)})


def judge_copies(
    withdrawal: Withdrawal, attempt: Attempt, ours: tuple[WithdrawalRow, ...], rows: tuple[WithdrawalRow, ...]
) -> ExecutionResult | None:
    """None unless something beside ours looks like it: a copy of the request may have been taken, and moved money."""
    trace, known = attempt.trace(withdrawal), {row.withdrawal_id for row in ours}
    copies = [row for row in rows if row.withdrawal_id not in known and trace.could_be(row, withdrawal.account.venue)]
    if not copies:
        return None
    named = ", ".join(row.withdrawal_id for row in copies)
    message = f"withdrawal {', '.join(sorted(known))} is this one, and {named} may be of a copy of the request"
    evidence = {"rows": shown_rows((*ours, *copies))}
    return for_operator("SEVERAL_ON_RECORD", f"{message}. {attempt.look_at(withdrawal)}", evidence)


def judge_unnamed(withdrawal: Withdrawal, attempt: Attempt, rows: tuple[WithdrawalRow, ...]) -> ExecutionResult | None:
    """Where rows carry ids, one that hides its own proves nothing: if it could be ours, it is a person's."""
    trace = attempt.trace(withdrawal)
    found = [row for row in rows if row.client_id is None and trace.could_be(row, withdrawal.account.venue)]
    if not found:
        return None
    named = ", ".join(row.withdrawal_id for row in found)
    message = f"withdrawal {named} on record could be this one, and does not show our id. {attempt.look_at(withdrawal)}"
    return for_operator("UNNAMED_ON_RECORD", message, {"rows": shown_rows(found)})


def judge_fit(withdrawal: Withdrawal, attempt: Attempt, rows: tuple[WithdrawalRow, ...]) -> ExecutionResult | None:
    """The verdict of rows that do not say whose they are: one that fits in everything is ours, all else a person's."""
    fit, found = fitting(attempt.trace(withdrawal), rows, withdrawal.account.venue)
    if fit is Fit.ABSENT:
        return None
    if fit is Fit.ONE:
        return judge_rows(withdrawal, found, differing_terms)
    named = ", ".join(row.withdrawal_id for row in found)
    reason = {
        Fit.SEVERAL: f"{len(found)} withdrawals on record ({named}) could be this one",
        Fit.UNPROVEN: f"withdrawal {named} on record could be this one, and does not show enough to be sure",
        Fit.UNDONE: f"withdrawal {named} on record, which could be this one, was given back",
    }[fit]
    evidence = {"rows": shown_rows(found)}
    return for_operator(f"{fit}_ON_RECORD", f"{reason}. {attempt.look_at(withdrawal)}", evidence)


def judge_rows(
    withdrawal: Withdrawal,
    rows: tuple[WithdrawalRow, ...],
    differing: Callable[[Order, WithdrawalRow, Venue], tuple[str, ...]] = differences,
    adopted_refs: Mapping[str, Any] | None = None,
) -> ExecutionResult | None:
    """The verdict of the rows of one withdrawal; a row that contradicts the order is for a person.

    Ours are told by our client id. What was adopted is told by its id: its own terms are compared by `differing`.
    """
    if not rows:
        return None
    client_id = str((adopted_refs or {}).get("withdrawal_client_id", withdrawal.order.client_id))
    evidence = {"client_id": client_id, "rows": shown_rows(rows)}
    if len(rows) > 1:
        several = ", ".join(row.withdrawal_id for row in rows)
        return for_operator("SEVERAL_ON_RECORD", f"{len(rows)} withdrawals carry one id: {several}", evidence)
    row = rows[0]
    wrong = differing(withdrawal.order, row, withdrawal.account.venue)
    if wrong:
        return for_operator("OTHER_ON_RECORD", f"the withdrawal on record differs in {', '.join(wrong)}", evidence)
    if row.state in (RowState.FAILED, RowState.CANCELLED):
        return _undone(withdrawal, row, evidence)
    return ExecutionResult(
        status=ResultStatus.COMPLETED,
        provider_refs={**withdrawal_refs(withdrawal, row.withdrawal_id), "withdrawal_client_id": client_id},
        evidence={**evidence, "venue_status": row.raw_status, "status_listed": row.status_listed},
    )


def _undone(withdrawal: Withdrawal, row: WithdrawalRow, evidence: Mapping[str, Any]) -> ExecutionResult:
    if transaction_hash(withdrawal.config.chain, row.tx_id) is not None:
        return for_operator("FAILED_WITH_TRANSACTION", "called failed, and it has a transaction", evidence)
    return ExecutionResult(
        status=ResultStatus.FAILED,
        provider_refs=withdrawal_refs(withdrawal, row.withdrawal_id),
        error_code=f"WITHDRAWAL_{row.state}",
        error_message=f"{withdrawal.account.key} gave the funds back (status {row.raw_status})",
        evidence=dict(evidence),
    )
