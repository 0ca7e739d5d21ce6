"""exec.cex.deposit_observe: waits until a transaction of ours is credited at a venue, and usable."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from functools import reduce

from qtg_dagster.domain.amounts import Amount, plain_decimal
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.answers import for_operator, observing
from qtg_dagster.lanes.cex.histories import deposits_since
from qtg_dagster.lanes.cex.matching import EXACT, same_address, transaction_hash
from qtg_dagster.lanes.cex.observation import Observation
from qtg_dagster.lanes.cex.orders import NO_MEMO, read_config
from qtg_dagster.lanes.cex.shown import shown_rows
from qtg_dagster.lanes.cex.venue import DepositRow, RowState

_LOOK_BACK = timedelta(days=7)


class DepositConfig(Frozen):
    """Which deposit to wait for. `amount` is what arrives in all; needed when one transaction has several rows."""

    venue: str
    asset: str
    chain: str
    tx_hash: str
    address: str
    memo: str | None = None
    amount: str | None = None


class DepositObserve(Observation):
    """COMPLETED once every part of the transaction is credited and usable. Never FAILED by waiting. Reads only."""

    def check(self, context: ExecutionContext) -> None:
        """Raise `InvalidInput` for unknown names and for what is not a transaction hash of the chain."""
        self._target(context)

    async def look(self, context: ExecutionContext) -> ExecutionResult:
        """Read the venue's deposits and judge those of the transaction."""
        config, account = self._target(context)
        now = self._clock.now()
        since = (context.started_at or now) - _LOOK_BACK
        rows = await deposits_since(account, account.coin(config.asset), since, now)
        return judge_deposits(config, account, rows)

    def _target(self, context: ExecutionContext) -> tuple[DepositConfig, VenueAccount]:
        config = read_config(DepositConfig, context)
        account = self._accounts.account(config.venue)
        account.coin(config.asset)
        account.network(config.chain)
        if transaction_hash(config.chain, config.tx_hash) is None:
            raise InvalidInput("config.tx_hash", f"{config.tx_hash!r} is no hash of {config.chain}", "Give its hash.")
        if config.amount is not None:
            Amount.parse(self._accounts.inventory.asset(config.asset), config.amount, field="config.amount")
        return config, account


def judge_deposits(config: DepositConfig, account: VenueAccount, rows: tuple[DepositRow, ...]) -> ExecutionResult:
    """What a venue's deposits say about one transaction. Pure."""
    ours = tuple(row for row in rows if is_ours(config, account, row))
    evidence: dict[str, object] = {"tx_hash": config.tx_hash, "rows": shown_rows(ours)}
    if not ours:
        return observing(evidence)
    unlisted = [row.raw_status for row in ours if not row.status_listed]
    if unlisted:
        message = f"{account.key} shows status {unlisted[0]!r}, which has no known meaning"
        return observing(evidence, code="UNLISTED_STATUS", message=message)
    lost = [row for row in ours if row.state in (RowState.FAILED, RowState.CANCELLED)]
    if lost:
        return _not_credited(account, ours, lost, evidence)
    held = [row for row in ours if row.state is RowState.HELD]
    if held:
        message = f"{account.key} holds it back (status {held[0].raw_status}): speak with the venue"
        return observing(evidence, code="HELD_AT_VENUE", message=message)
    if any(row.state is RowState.LOCKED for row in ours):
        return observing({**evidence, "credited": "locked, not usable yet"})
    if any(row.state is not RowState.DONE for row in ours):
        return observing(evidence)
    return _credited(config, ours, evidence)


def is_ours(config: DepositConfig, account: VenueAccount, row: DepositRow) -> bool:
    """Whether a row is (part of) the transaction waited for: hash, coin, network, address and memo agree.

    Where rows never show a destination, the transaction was paid to one of the account's own: nobody else's is listed.
    """
    tx_hash = transaction_hash(config.chain, config.tx_hash)
    return (
        tx_hash is not None
        and transaction_hash(config.chain, row.tx_id) == tx_hash
        and row.coin == account.coin(config.asset)
        and (row.network is None or account.venue.network_code(row.network) == account.network(config.chain))
        and (not account.venue.deposits_show_destination or _is_at(row, config))
    )


def _is_at(row: DepositRow, config: DepositConfig) -> bool:
    memo = None if config.memo == NO_MEMO else config.memo
    return same_address(row.address, config.address) and (memo is None or row.memo == memo)


def _not_credited(
    account: VenueAccount, ours: tuple[DepositRow, ...], lost: list[DepositRow], evidence: dict[str, object]
) -> ExecutionResult:
    if len(lost) < len(ours):
        return for_operator("PARTLY_CREDITED", "the venue refused a part of this deposit", evidence)
    return ExecutionResult(
        status=ResultStatus.FAILED,
        error_code="DEPOSIT_REFUSED",
        error_message=f"{account.key} did not credit it (status {lost[0].raw_status}): claim it at the venue",
        evidence=evidence,
    )


def _credited(config: DepositConfig, ours: tuple[DepositRow, ...], evidence: dict[str, object]) -> ExecutionResult:
    total = reduce(EXACT.add, (row.amount for row in ours))
    if config.amount is None and len(ours) > 1:
        message = "several deposits share the transaction and the node names no amount to add up to"
        return for_operator("SEVERAL_ON_RECORD", message, evidence)
    if config.amount is not None and total != Decimal(config.amount):
        if total < Decimal(config.amount):
            message = f"{plain_decimal(total)} of {config.amount} credited so far"
            return observing(evidence, code="PARTLY_CREDITED", message=message)
        return for_operator("OTHER_AMOUNT", f"{plain_decimal(total)} credited, {config.amount} expected", evidence)
    return ExecutionResult(
        status=ResultStatus.COMPLETED,
        provider_refs={
            "deposit_id": ",".join(sorted(row.deposit_id for row in ours)),
            "credited_amount": plain_decimal(total),
        },
        evidence=evidence,
    )
