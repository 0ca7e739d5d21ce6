"""exec.cex.withdrawal_observe: follows a withdrawal on the venue's record until it has a transaction."""

from __future__ import annotations

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.lanes.cex.accounts import VenueAccount, VenueAccounts
from qtg_dagster.lanes.cex.answers import for_operator, observing
from qtg_dagster.lanes.cex.batching import WithdrawalLookups
from qtg_dagster.lanes.cex.matching import transaction_hash
from qtg_dagster.lanes.cex.observation import Observation
from qtg_dagster.lanes.cex.orders import read_config
from qtg_dagster.lanes.cex.shown import shown_rows
from qtg_dagster.lanes.cex.venue import RowState, WithdrawalRow


class WithdrawalStatusConfig(Frozen):
    """Which withdrawal to follow: the venue's id for it, and ours."""

    venue: str
    asset: str
    chain: str
    withdrawal_id: str
    client_id: str | None = None


class WithdrawalObserve(Observation):
    """COMPLETED with the transaction, the fee, and the amount that arrives. Reads only."""

    def __init__(self, accounts: VenueAccounts, clock: Clock) -> None:
        super().__init__(accounts, clock)
        self._lookups = {account.key: WithdrawalLookups(account, clock) for account in accounts}

    def check(self, context: ExecutionContext) -> None:
        """Raise `InvalidInput` for names that the inventory does not know."""
        self._target(context)

    async def look(self, context: ExecutionContext) -> ExecutionResult:
        """Read the withdrawal's row and judge it."""
        config, account = self._target(context)
        rows = await self._lookups[account.key].rows(config.withdrawal_id, account.coin(config.asset))
        return judge_withdrawal(config, account, rows)

    def _target(self, context: ExecutionContext) -> tuple[WithdrawalStatusConfig, VenueAccount]:
        config = read_config(WithdrawalStatusConfig, context)
        account = self._accounts.account(config.venue)
        account.coin(config.asset)
        account.network(config.chain)
        return config, account


def judge_withdrawal(
    config: WithdrawalStatusConfig, account: VenueAccount, rows: tuple[WithdrawalRow, ...]
) -> ExecutionResult:
    """What the rows of one withdrawal id prove. Pure."""
    evidence: dict[str, object] = {"withdrawal_id": config.withdrawal_id, "rows": shown_rows(rows)}
    if not rows:
        return observing(evidence)
    if len(rows) > 1:
        return for_operator("SEVERAL_ON_RECORD", f"{len(rows)} rows carry one withdrawal id", evidence)
    row = rows[0]
    if not _is_ours(config, account, row):
        return for_operator("OTHER_ON_RECORD", "the row of this id is of another withdrawal", evidence)
    tx_hash = transaction_hash(config.chain, row.tx_id)
    if row.state in (RowState.FAILED, RowState.CANCELLED):
        return _undone(account, row, tx_hash, evidence)
    if row.state is RowState.HELD:
        message = f"{account.key} holds it back (status {row.raw_status}): speak with the venue"
        return observing(evidence, code="HELD_AT_VENUE", message=message)
    if not row.status_listed:
        message = f"{account.key} shows status {row.raw_status!r}, which has no known meaning"
        return observing(evidence, code="UNLISTED_STATUS", message=message)
    if row.state is not RowState.DONE:
        return observing(evidence)
    if tx_hash is None and not row.internal:
        return observing(evidence, code="NO_TRANSACTION", message="done at the venue, and no transaction is shown")
    return _completed(account, row, tx_hash, evidence)


def _is_ours(config: WithdrawalStatusConfig, account: VenueAccount, row: WithdrawalRow) -> bool:
    code = account.venue.network_code(row.network) if row.network is not None else None
    return (
        row.coin == account.coin(config.asset)
        and code in (None, account.network(config.chain))
        and (config.client_id is None or row.client_id in (None, config.client_id))
    )


def _completed(
    account: VenueAccount, row: WithdrawalRow, tx_hash: str | None, evidence: dict[str, object]
) -> ExecutionResult:
    # An internal transfer never reaches a chain: the venue's word is all there is, and no hash is made up.
    where = {"tx_hash": tx_hash} if tx_hash is not None else {"internal_transfer": row.tx_id or row.withdrawal_id}
    return ExecutionResult(
        status=ResultStatus.COMPLETED,
        provider_refs={
            **where,
            "withdrawal_fee": plain_decimal(row.fee),
            "withdrawal_amount": plain_decimal(account.venue.arriving(row)),
        },
        evidence=evidence,
    )


def _undone(
    account: VenueAccount, row: WithdrawalRow, tx_hash: str | None, evidence: dict[str, object]
) -> ExecutionResult:
    if tx_hash is not None:
        return for_operator("FAILED_WITH_TRANSACTION", "called failed, and it has a transaction", evidence)
    return ExecutionResult(
        status=ResultStatus.FAILED,
        error_code=f"WITHDRAWAL_{row.state}",
        error_message=f"{account.key} gave the funds back (status {row.raw_status})",
        evidence=evidence,
    )
