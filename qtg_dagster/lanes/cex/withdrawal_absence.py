"""What follows from a withdrawal that is nowhere on record: a proof, another request under its id, or a person."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.lanes.cex.answers import for_operator
from qtg_dagster.lanes.cex.histories import deposits_since
from qtg_dagster.lanes.cex.negative_proof import AFTER_EXPIRY, Absence, ArrivalWitness, sign_in_wallet
from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.wallets import wallet_balance
from qtg_dagster.lanes.cex.withdrawal_recovery import Attempt, balance_refs
from qtg_dagster.lanes.cex.withdrawal_resend import Resends, may_be_sent_again, send_again, why_not_again


class AbsenceJudge:
    """Decides, for a withdrawal that is not on record, whether that proves that it was not executed."""

    def __init__(self, clock: Clock, witness: ArrivalWitness | None) -> None:
        self._clock = clock
        self._witness = witness

    async def judge(self, context: ExecutionContext, withdrawal: Withdrawal, attempt: Attempt) -> ExecutionResult:
        """FAILED with all of the proof, else UNKNOWN with the count so far. Raises `LookupFailed`."""
        now = self._clock.now()
        countable_from = (attempt.last_moment(withdrawal.account.venue) or attempt.expires_at) + AFTER_EXPIRY
        absence = Absence.from_refs(context.node_refs, withdrawal.order.client_id).seen_again(now, countable_from)
        evidence = {
            "client_id": withdrawal.order.client_id,
            "rows": [],
            "lookups": absence.lookups,
            "lookups_count_from": countable_from.isoformat(),
        }
        if not absence.is_long_enough:
            return _still_unknown(absence, evidence)
        if context.prepared is not None and may_be_sent_again(withdrawal):
            return await self._ask_again(withdrawal, attempt, context, context.prepared, evidence)
        missing = await self._missing_proof(withdrawal, attempt, evidence)
        if missing is None:
            return ExecutionResult(
                status=ResultStatus.FAILED,
                provider_refs=absence.to_refs(),
                error_code="NOT_EXECUTED",
                error_message=f"{withdrawal.account.key} never took this withdrawal",
                evidence=evidence,
            )
        answer = for_operator("NOT_ON_RECORD", missing, evidence)
        return answer.model_copy(update={"provider_refs": absence.to_refs()})

    async def _missing_proof(self, withdrawal: Withdrawal, attempt: Attempt, evidence: dict[str, Any]) -> str | None:
        account = withdrawal.account
        if not account.venue.absence_can_prove:
            return f"not on record, which proves nothing at this venue. {attempt.look_at(withdrawal)}"
        if not account.entry.absence_is_proof:
            off = f"not on record, and venues.{account.key}.absence_is_proof is off"
            return f"{off}. {attempt.look_at(withdrawal)}"
        return await self._sign_of_it(withdrawal, attempt, evidence)

    async def _ask_again(
        self,
        withdrawal: Withdrawal,
        attempt: Attempt,
        context: ExecutionContext,
        prepared: PreparedAction,
        evidence: dict[str, Any],
    ) -> ExecutionResult:
        """One more request under the same id, unless something says that the first one was executed."""
        now = self._clock.now()
        resends = Resends.from_refs(context.node_refs, withdrawal.order.client_id)
        why_not = why_not_again(resends, attempt.prepared_at, now)
        if why_not is None:
            why_not = await self._sign_of_it(withdrawal, attempt, evidence)
        if why_not is not None:
            return for_operator("NOT_ON_RECORD", f"{why_not}. {attempt.look_at(withdrawal)}", evidence)
        return await send_again(withdrawal, prepared, resends, self._clock)

    async def _sign_of_it(self, withdrawal: Withdrawal, attempt: Attempt, evidence: dict[str, Any]) -> str | None:
        """What wallet and destination show that speaks for an execution; None when nothing does."""
        if self._witness is None:
            return "not on record, and no chain is read that could show that it arrived"
        account, config = withdrawal.account, withdrawal.config
        since = attempt.prepared_at
        balance = await wallet_balance(account, withdrawal.order.coin)
        deposits = await deposits_since(account, withdrawal.order.coin, since, self._clock.now())
        evidence["balance_before"], evidence["balance"] = balance_refs(attempt.balance_before), balance_refs(balance)
        sign = sign_in_wallet(attempt.balance_before, balance, deposits)
        if sign is not None:
            return f"not on record, but {sign}"
        try:
            arrived = await self._witness.arrived(
                chain=config.chain, asset=config.asset, destination=config.destination, since=since
            )
        except QtgError as problem:
            return f"not on record, and nobody can say whether it arrived: {problem}"
        evidence["arrived"] = list(arrived)
        if any(Decimal(amount) <= withdrawal.amount.to_decimal() for amount in arrived):
            return "not on record, but the destination received the asset since"
        return None


def _still_unknown(absence: Absence, evidence: Mapping[str, Any]) -> ExecutionResult:
    return ExecutionResult(
        status=ResultStatus.UNKNOWN,
        provider_refs=absence.to_refs(),
        error_code="NOT_ON_RECORD_YET",
        error_message="not on the venue's record so far, which proves nothing yet",
        retry_after_seconds=absence.seconds_until_next(),
        evidence=dict(evidence),
    )
