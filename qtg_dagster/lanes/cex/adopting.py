"""Is a withdrawal that somebody else asked for this node's? Compared with the venue's record; reads only."""

from __future__ import annotations

from datetime import datetime, timedelta

from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.lanes.cex.destinations import PaymentWitness, with_destinations
from qtg_dagster.lanes.cex.histories import (
    MARGIN,
    withdrawals_between,
    withdrawals_by_client_id,
    withdrawals_by_ids,
    withdrawals_by_transaction,
)
from qtg_dagster.lanes.cex.matching import differing_terms, transaction_hash
from qtg_dagster.lanes.cex.negative_proof import AFTER_EXPIRY
from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.shown import shown_rows
from qtg_dagster.lanes.cex.travel_rule import refuse_wrong_record
from qtg_dagster.lanes.cex.venue import Identity, RowState, Window, WithdrawalRow
from qtg_dagster.lanes.cex.withdrawal_destination import as_prepared
from qtg_dagster.lanes.cex.withdrawal_recovery import Attempt, judge_rows
from qtg_dagster.lanes.cex.withdrawal_refs import withdrawal_refs

#: How long a person's word waits beside a request of ours of which nobody knows until when it can be taken.
WHERE_NO_END_IS_KNOWN = timedelta(hours=1)


async def judge_adoption(
    withdrawal: Withdrawal,
    context: ExecutionContext,
    reference: str,
    now: datetime,
    payments: PaymentWitness | None = None,
) -> ExecutionResult:
    """ACCEPTED for the one withdrawal on record that is of this coin, network, address, memo and amount.

    `reference` is the venue's id or the transaction's hash. Where the record never shows a destination, the chain says
    whom its transaction paid; where that leaves a doubt, the person's word is taken for it. Beside an attempt of the
    node's own whose answer was lost, only what that attempt can have become will do. Raises `LookupFailed`.
    """
    rows = await _find(withdrawal, reference, now)
    if len(rows) != 1:
        return _no("NOT_ONE_ON_RECORD", f"{len(rows)} withdrawals on record for it, where one is needed", rows)
    (shown_as,) = rows
    shown = await with_destinations(withdrawal, rows, lambda _: True, payments)
    (row,) = shown.rows
    wrong = differing_terms(withdrawal.order, row, withdrawal.account.venue)
    if wrong:
        told = "".join(f". {what}" for what in shown.seen if "address" in wrong)
        return _no("OTHER_ON_RECORD", f"the withdrawal on record differs in {', '.join(wrong)}{told}", rows)
    if row.address is None and withdrawal.account.venue.rows_show_destination:
        return _no("NO_ADDRESS", "the record does not show where it went", rows)
    if row.state in (RowState.FAILED, RowState.CANCELLED):
        return _no("DID_NOT_SUCCEED", f"the venue gave the funds back (status {row.raw_status})", rows)
    beside = await _beside_own(withdrawal, context, row, now, payments)
    if beside is not None:
        return _no("OWN_ATTEMPT_OPEN", beside, rows)
    refs = withdrawal_refs(withdrawal, row.withdrawal_id)
    refs["withdrawal_client_id"] = row.client_id or withdrawal.order.client_id
    evidence = _evidence(rows)
    if row.address is None:
        evidence["destination"] = f"not on the record: {withdrawal.order.address} on the word of who adopted it"
    elif shown_as.address is None:
        evidence["destination"] = f"not on the record: the chain shows {row.address}"
    if shown.seen:
        evidence["on_chain"] = list(shown.seen)
    return ExecutionResult(status=ResultStatus.ACCEPTED, provider_refs=refs, evidence=evidence)


async def look_up_adopted(withdrawal: Withdrawal, context: ExecutionContext, now: datetime) -> ExecutionResult | None:
    """What the record says of the withdrawal that the node adopted; None when it is not shown."""
    adopted, coin = str(context.node_refs["exchange_withdrawal_id"]), withdrawal.order.coin
    rows = await withdrawals_by_ids(withdrawal.account, [adopted], coin, now)
    return judge_rows(withdrawal, rows, differing_terms, context.node_refs)


async def _find(withdrawal: Withdrawal, reference: str, now: datetime) -> tuple[WithdrawalRow, ...]:
    account, chain = withdrawal.account, withdrawal.config.chain
    tx_hash = transaction_hash(chain, reference)
    if tx_hash is not None:
        rows = await withdrawals_by_transaction(account, withdrawal.order.coin, chain, tx_hash, now)
        if rows:
            return rows
    return await withdrawals_by_ids(account, [reference], withdrawal.order.coin, now)


async def _beside_own(
    withdrawal: Withdrawal,
    context: ExecutionContext,
    row: WithdrawalRow,
    now: datetime,
    payments: PaymentWitness | None,
) -> str | None:
    """Why the node's own request could still take effect beside this withdrawal; None when it cannot."""
    attempt = Attempt.of(context, withdrawal.order.coin)
    client_id, venue = withdrawal.order.client_id, withdrawal.account.venue
    if attempt is None or row.client_id == client_id:
        return None
    refuse_wrong_record(withdrawal.account, as_prepared(withdrawal, context.prepared).order)
    if row.client_id is not None:
        return f"it was asked for under {row.client_id}, so the node's own request {client_id} may have been taken too"
    last_moment = attempt.last_moment(venue) or attempt.expires_at + WHERE_NO_END_IS_KNOWN
    last_moment += AFTER_EXPIRY
    if now <= last_moment:
        return f"the node's own request {client_id} can still be taken until {last_moment.isoformat()}"
    if row.applied_at is None or not attempt.prepared_at - MARGIN <= row.applied_at <= last_moment + MARGIN:
        return f"it was not asked for when the node's own request {client_id} was sent"
    if venue.identity is not Identity.SEARCHABLE:
        beside = await _beside_rows_that_fit(withdrawal, attempt, row, now, payments)
        if beside is not None or not venue.identity.is_shown:
            return beside
    if await withdrawals_by_client_id(withdrawal.account, client_id, withdrawal.order.coin, attempt.prepared_at, now):
        return f"the node's own request {client_id} is on record as another withdrawal; resume the movement"
    return None


async def _beside_rows_that_fit(
    withdrawal: Withdrawal,
    attempt: Attempt,
    row: WithdrawalRow,
    now: datetime,
    payments: PaymentWitness | None,
) -> str | None:
    account, coin = withdrawal.account, withdrawal.order.coin
    rows = await withdrawals_between(account, coin, Window(attempt.prepared_at - MARGIN, now + MARGIN))
    trace = attempt.trace(withdrawal)
    beside = [one for one in rows if one.withdrawal_id != row.withdrawal_id]
    shown = await with_destinations(withdrawal, beside, lambda one: trace.could_be(one, account.venue), payments)
    others = [one.withdrawal_id for one in shown.rows if trace.could_be(one, account.venue)]
    if others:
        return f"the node's own request may have become {', '.join(others)}, which looks the same"
    return None


def _no(code: str, message: str, rows: tuple[WithdrawalRow, ...]) -> ExecutionResult:
    return ExecutionResult(
        status=ResultStatus.REJECTED, error_code=code, error_message=message, evidence=_evidence(rows)
    )


def _evidence(rows: tuple[WithdrawalRow, ...]) -> dict[str, object]:
    return {"rows": shown_rows(rows)}
