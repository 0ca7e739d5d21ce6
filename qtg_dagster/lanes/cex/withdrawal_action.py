"""exec.cex.withdrawal_action: asks a venue for a withdrawal, once an attempt, and finds out if it was taken."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.contract import (
    ADOPTED_REF,
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    PreparedAction,
    ResultStatus,
)
from qtg_dagster.domain.errors import Conflict, InvalidInput, QtgError
from qtg_dagster.domain.plans import RiskControls
from qtg_dagster.domain.review import FeeEstimate
from qtg_dagster.lanes.cex.access import AccessRefused, with_fix
from qtg_dagster.lanes.cex.accounts import VenueAccounts
from qtg_dagster.lanes.cex.adopting import judge_adoption, look_up_adopted
from qtg_dagster.lanes.cex.answers import (
    FAILED_LOOK_SECONDS,
    lookup_failed,
    not_let_in,
    not_now,
    observing,
    refused,
)
from qtg_dagster.lanes.cex.destinations import PaymentWitness
from qtg_dagster.lanes.cex.fee_estimate import estimate_withdrawal_fee
from qtg_dagster.lanes.cex.health import venues_health
from qtg_dagster.lanes.cex.negative_proof import ArrivalWitness
from qtg_dagster.lanes.cex.orders import Withdrawal, withdrawal_of
from qtg_dagster.lanes.cex.outcome import Outcome, Verdict, decide
from qtg_dagster.lanes.cex.prepared_order import payload_of, sendable_order
from qtg_dagster.lanes.cex.refusal import Refusal
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.travel_rule import sendable_call, told_of
from qtg_dagster.lanes.cex.venue import Identity, Order
from qtg_dagster.lanes.cex.wallets import wallet_balance
from qtg_dagster.lanes.cex.withdrawal_absence import AbsenceJudge
from qtg_dagster.lanes.cex.withdrawal_destination import as_prepared, as_saved
from qtg_dagster.lanes.cex.withdrawal_preflight import check_withdrawal
from qtg_dagster.lanes.cex.withdrawal_recovery import (
    BALANCE_BEFORE,
    EXPIRES_AT,
    PREPARED_AT,
    SEEN_BEFORE,
    Attempt,
    balance_refs,
    look_up,
    not_prepared,
    seen_before,
)
from qtg_dagster.lanes.cex.withdrawal_refs import VENUE_WITHDRAWAL, bound_refs, withdrawal_refs

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

PREPARED_FOR = timedelta(seconds=60)
_REMEMBERED_SUBMITS = 10_000
_LONG_MISSING = timedelta(minutes=30)


class WithdrawalAction:
    """Withdraws from a venue account. `config`: venue, asset, chain, amount, destination, memo?, max_fee?"""

    identifying_refs: tuple[str, ...] = (VENUE_WITHDRAWAL, "withdrawal_client_id")

    def __init__(
        self,
        accounts: VenueAccounts,
        clock: Clock,
        witness: ArrivalWitness | None = None,
        payments: PaymentWitness | None = None,
    ) -> None:
        self._accounts = accounts
        self._clock = clock
        self._absence = AbsenceJudge(clock, witness)
        self._payments = payments
        self._submitted: OrderedDict[str, None] = OrderedDict()

    @property
    def submit_grace_seconds(self) -> float:
        """How long an unanswered request is left alone before its first look-up."""
        return self._accounts.settle_seconds

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        """Status, permission, network, amount, memo, address, allowlist, balance and clock; reads only."""
        try:
            withdrawal = withdrawal_of(context, self._accounts)
            return await check_withdrawal(withdrawal, self._accounts, _controls(context), self._clock)
        except InvalidInput as problem:
            return refused(problem)
        except AccessRefused as problem:
            return not_let_in(problem)
        except LookupFailed as problem:
            wait = problem.retry_after_seconds or FAILED_LOOK_SECONDS
            return not_now("VENUE_UNREADABLE", str(problem), retry_after_seconds=wait)

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        """Fix the request's content, and note what the wallet holds before it. Raises `LookupFailed`."""
        withdrawal = withdrawal_of(context, self._accounts)
        withdrawal = replace(withdrawal, order=await as_saved(withdrawal))
        withdrawal = replace(withdrawal, order=await told_of(withdrawal))
        balance = await wallet_balance(withdrawal.account, withdrawal.order.coin)
        now = self._clock.now()
        looks_alike = {}
        if withdrawal.account.venue.identity is not Identity.SEARCHABLE:
            looks_alike = {SEEN_BEFORE: await seen_before(withdrawal, now)}
        return PreparedAction.of(
            action_type=context.action_type,
            payload_format=withdrawal.account.venue.payload_format,
            payload=payload_of(withdrawal),
            expires_at=now + PREPARED_FOR,
            provider_refs={
                "withdrawal_client_id": withdrawal.order.client_id,
                "withdrawal_amount": withdrawal.order.amount,
                PREPARED_AT: now.isoformat(),
                EXPIRES_AT: (now + PREPARED_FOR).isoformat(),
                BALANCE_BEFORE: balance_refs(balance),
                **looks_alike,
            },
        )

    async def submit(
        self,
        context: ExecutionContext,
        prepared: PreparedAction,
        session: AsyncSession | None = None,  # noqa: ARG002 - the contract's signature
    ) -> ExecutionResult:
        """Send the prepared request once. A second call for one attempt sends nothing and answers UNKNOWN."""
        attempt = context.idempotency_key
        if attempt in self._submitted:
            return _second_submit()
        self._remember(attempt)
        try:
            withdrawal = withdrawal_of(context, self._accounts)
            await withdrawal.account.ready_to_submit(withdrawal.order)
            now = self._clock.now()
            order = _fresh_order(withdrawal, prepared, now)
            try:
                call = sendable_call(withdrawal, order, now)
            except InvalidInput as problem:
                self._submitted.pop(attempt, None)
                return refused(problem)
            reply = await withdrawal.account.call(call)
        except QtgError as problem:  # raised before sending, and only then
            self._submitted.pop(attempt, None)
            return not_now("NOT_SENDABLE", str(problem), retry_after_seconds=0)
        outcome = decide(reply, withdrawal.account.venue.submit_rules)
        evidence = {
            "rule": outcome.reason,
            "client_id": order.client_id,
            "sent_at": now.isoformat(),
            **reply.evidence(),
        }
        if outcome.verdict is Verdict.NOT_SENT:
            self._submitted.pop(attempt, None)
        venue = withdrawal.account.venue
        if outcome.verdict is Verdict.REJECTED and outcome.confirm_first and venue.identity.is_shown:
            refusal = Refusal.of(outcome, order.client_id, self._clock.now())
            return refusal.unconfirmed(evidence, look_after=withdrawal.account.entry.settle_seconds)
        return _result(withdrawal, outcome, evidence, reply.retry_after_seconds)

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        """COMPLETED once the withdrawal is on the venue's record; an empty look-up is no evidence of anything."""
        withdrawal = as_prepared(withdrawal_of(context, self._accounts), context.prepared)
        if ADOPTED_REF in context.node_refs:
            return await self._look_at_adopted(withdrawal, context, unproven=ResultStatus.OBSERVING)
        attempt = Attempt.of(context, withdrawal.order.coin)
        if attempt is None:
            return not_prepared()
        now = self._clock.now()
        try:
            found = await look_up(withdrawal, attempt, context.node_refs, now, self._payments)
        except LookupFailed as problem:
            return lookup_failed(ResultStatus.OBSERVING, problem)
        if found is not None:
            return found
        evidence = {"client_id": withdrawal.order.client_id, "rows": []}
        if now - attempt.prepared_at > _LONG_MISSING:
            return observing(evidence, code="NOT_ON_RECORD", message="accepted long ago and not on record", after=60)
        return observing(evidence)

    async def recover(
        self,
        context: ExecutionContext,
        session: AsyncSession | None = None,  # noqa: ARG002 - the contract's signature
    ) -> ExecutionResult:
        """Look the client id up: on record, proven absent, or still UNKNOWN with the time of the next look."""
        withdrawal = as_prepared(withdrawal_of(context, self._accounts), context.prepared)
        if ADOPTED_REF in context.node_refs:
            return await self._look_at_adopted(withdrawal, context, unproven=ResultStatus.UNKNOWN)
        attempt = Attempt.of(context, withdrawal.order.coin)
        if attempt is None:
            return not_prepared()
        now = self._clock.now()
        refusal = Refusal.from_refs(context.node_refs, withdrawal.order.client_id)
        try:
            found = await look_up(withdrawal, attempt, context.node_refs, now, self._payments)
            if found is not None:
                return found
            if refusal is not None:
                return refusal.not_on_record(now, withdrawal.account.entry.settle_seconds)
            return await self._absence.judge(context, withdrawal, attempt)
        except LookupFailed as problem:
            return lookup_failed(ResultStatus.UNKNOWN, problem)

    async def adopt(self, context: ExecutionContext, reference: str) -> ExecutionResult:
        """Compare a withdrawal on the venue's record with this node's, and with what the node itself asked for."""
        try:
            withdrawal = withdrawal_of(context, self._accounts)
            return await judge_adoption(withdrawal, context, reference, self._clock.now(), self._payments)
        except InvalidInput as problem:
            return refused(problem)
        except LookupFailed as problem:
            return lookup_failed(ResultStatus.UNKNOWN, problem)

    async def estimate_fee(self, context: ExecutionContext) -> FeeEstimate:
        """What the venue lists as its fee; see `estimate_withdrawal_fee`."""
        return await estimate_withdrawal_fee(self._accounts, context)

    async def health(self) -> HealthReport | None:
        """System status and a signed request that changes nothing, at every venue."""
        return await venues_health(self._accounts)

    async def _look_at_adopted(
        self, withdrawal: Withdrawal, context: ExecutionContext, *, unproven: ResultStatus
    ) -> ExecutionResult:
        try:
            found = await look_up_adopted(withdrawal, context, self._clock.now())
        except LookupFailed as problem:
            return lookup_failed(unproven, problem)
        return found or ExecutionResult(status=unproven, evidence={"rows": []})

    def _remember(self, attempt: str) -> None:
        self._submitted[attempt] = None
        while len(self._submitted) > _REMEMBERED_SUBMITS:
            self._submitted.popitem(last=False)


def _controls(context: ExecutionContext) -> RiskControls:
    try:
        return RiskControls.model_validate(context.risk_controls)
    except ValidationError as error:
        raise InvalidInput("risk_controls", str(error.errors()[0]["msg"]), "Correct the template.") from None


def _fresh_order(withdrawal: Withdrawal, prepared: PreparedAction, now: datetime) -> Order:
    if prepared.expires_at is None or now >= prepared.expires_at:
        raise Conflict("the prepared withdrawal is too old to send: prepare it again")
    return sendable_order(withdrawal, prepared)


def _second_submit() -> ExecutionResult:
    return ExecutionResult(
        status=ResultStatus.UNKNOWN,
        error_code="ALREADY_SUBMITTED",
        error_message="this attempt was submitted before; nothing was sent again, look it up",
        evidence={"sent": False},
    )


def _result(
    withdrawal: Withdrawal, outcome: Outcome, evidence: dict[str, Any], retry_after: float | None
) -> ExecutionResult:
    if outcome.verdict is Verdict.ACCEPTED and outcome.withdrawal_id is not None:
        refs = withdrawal_refs(withdrawal, outcome.withdrawal_id) | bound_refs(withdrawal, outcome.withdrawal_id)
        return ExecutionResult(status=ResultStatus.ACCEPTED, provider_refs=refs, evidence=evidence)
    status = ResultStatus.UNKNOWN
    if outcome.verdict in (Verdict.NOT_SENT, Verdict.REJECTED) and not outcome.confirm_first:
        status = ResultStatus(outcome.verdict.value)
    hint = {"exchange_withdrawal_id_hint": outcome.withdrawal_id} if outcome.withdrawal_id else {}
    return ExecutionResult(
        status=status,
        provider_refs=hint,
        error_code=outcome.error_code,
        error_message=with_fix(withdrawal.account.key, withdrawal.account.venue, outcome.error_code, outcome.reason),
        retry_after_seconds=retry_after,
        evidence=evidence,
    )
