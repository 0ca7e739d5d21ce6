"""What a venue takes for a withdrawal now. Reads only."""

from __future__ import annotations

from decimal import Decimal

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.contract import ExecutionContext
from qtg_dagster.domain.review import FeeEstimate
from qtg_dagster.lanes.cex.accounts import VenueAccounts
from qtg_dagster.lanes.cex.orders import withdrawal_of
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import FeeRule
from qtg_dagster.lanes.cex.withdrawal_preflight import network_rules

_SIDES = {FeeRule.FROM_AMOUNT: "out of", FeeRule.ON_TOP: "beside", FeeRule.EITHER: "out of or beside"}


async def estimate_withdrawal_fee(accounts: VenueAccounts, context: ExecutionContext) -> FeeEstimate:
    """The fee that the venue lists for the coin on the network.

    Raises `InvalidInput` for terms that make no sense, and `LookupFailed` when the venue cannot be asked.
    """
    withdrawal = withdrawal_of(context, accounts)
    account, order = withdrawal.account, withdrawal.order
    rules = network_rules(withdrawal, await account.networks(order.coin, order.network))
    if not rules.fee_known:
        raise LookupFailed("FEE_NOT_TOLD", f"{account.key} says what a withdrawal costs only when it was taken")
    rule = account.venue.fee_rule
    return FeeEstimate(
        asset=withdrawal.config.asset,
        amount=plain_decimal(rules.fee_of(Decimal(order.amount))),
        how=f"listed by {account.key} for {order.coin} on {rules.network}, {_SIDES[rule]} the amount",
        on_top=rule is not FeeRule.FROM_AMOUNT,
    )
