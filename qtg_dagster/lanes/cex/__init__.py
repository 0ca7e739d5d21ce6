"""Exchanges: withdrawals, their progress, deposits and balances, over ccxt's signed HTTP."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.clock import Clock, SystemClock
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.cex.accounts import HEALTH_SECONDS, VenueAccounts
from qtg_dagster.lanes.cex.balances import VenueBalances
from qtg_dagster.lanes.cex.deposit_observe import DepositObserve
from qtg_dagster.lanes.cex.destinations import PaymentWitness
from qtg_dagster.lanes.cex.negative_proof import ArrivalWitness
from qtg_dagster.lanes.cex.record import VenueRecord
from qtg_dagster.lanes.cex.withdrawal_action import WithdrawalAction
from qtg_dagster.lanes.cex.withdrawal_alone import WithdrawalActionAlone
from qtg_dagster.lanes.cex.withdrawal_observe import WithdrawalObserve


@dataclass(frozen=True, slots=True)
class CexLane:
    """The lane's parts that are not executors."""

    accounts: VenueAccounts
    balance_fetchers: tuple[VenueBalances, ...]
    records: tuple[VenueRecord, ...]

    async def close(self) -> None:
        """Give all connections back."""
        await self.accounts.close()


def register(
    executors: ExecutorRegistry,
    inventory: Inventory,
    *,
    clock: Clock | None = None,
    arrivals: ArrivalWitness | None = None,
    payments: PaymentWitness | None = None,
    timeout_seconds: float = 10.0,
    health_seconds: float = HEALTH_SECONDS,
) -> CexLane:
    """Register the lane's three executors over the inventory's venues; `health_seconds` bounds a venue's health check.

    `payments` says whom a transaction paid, where a venue's rows do not: without it, a person does.
    Raises `ConfigurationError` for a wire without an adapter, and for `absence_is_proof` without a witness who can
    say that nothing arrived on the chain.
    """
    accounts = VenueAccounts(inventory, timeout_seconds=timeout_seconds, health_seconds=health_seconds)
    for account in accounts:
        if account.entry.absence_is_proof and arrivals is None:
            raise ConfigurationError(
                f"venues.{account.key}.absence_is_proof needs someone who reads arrivals on chains; set it to false"
            )
        if account.entry.absence_is_proof and not account.venue.absence_can_prove:
            raise ConfigurationError(
                f"venues.{account.key}.absence_is_proof: {account.entry.wire} cannot be asked for our id, or "
                "takes requests without an end; set it to false"
            )
    time = clock or SystemClock()
    alone = any(not account.venue.identity.is_shown for account in accounts)
    action = WithdrawalActionAlone if alone else WithdrawalAction
    executors.register("exec.cex.withdrawal_action", action(accounts, time, arrivals, payments))
    executors.register("exec.cex.withdrawal_observe", WithdrawalObserve(accounts, time))
    executors.register("exec.cex.deposit_observe", DepositObserve(accounts, time))
    balances = tuple(VenueBalances(account, time) for account in accounts)
    return CexLane(accounts, balances, tuple(VenueRecord(account) for account in accounts))
