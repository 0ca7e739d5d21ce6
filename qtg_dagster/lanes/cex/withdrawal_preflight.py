"""Everything that can be known to be wrong with a withdrawal before it is asked for."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.contract import ExecutionResult
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import RiskControls
from qtg_dagster.domain.risk import check_amount, check_destination
from qtg_dagster.lanes.cex.accounts import VenueAccount, VenueAccounts
from qtg_dagster.lanes.cex.answers import PASSING_SECONDS, not_now
from qtg_dagster.lanes.cex.matching import EXACT
from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.travel_rule import told_of
from qtg_dagster.lanes.cex.venue import CoinBalance, FeeRule, NetworkRules
from qtg_dagster.lanes.cex.wallets import wallet_balance
from qtg_dagster.lanes.cex.withdrawal_destination import as_saved, check_still_ours

MAX_SKEW = timedelta(seconds=1)


async def check_withdrawal(
    withdrawal: Withdrawal, accounts: VenueAccounts, controls: RiskControls, clock: Clock
) -> ExecutionResult | None:
    """None when nothing speaks against it; "not now" for what passes by itself.

    Raises `InvalidInput` for what does not, and `LookupFailed` when the venue cannot be asked. Reads only.
    """
    check_amount(controls, withdrawal.amount, field="config.amount")
    check_destination(controls, withdrawal.config.destination, field="config.destination")
    account = withdrawal.account
    # The key is tried alone before it is used for all else: a venue locks those out who insist with a wrong one.
    maintenance, problem = await asyncio.gather(account.maintenance(), account.permission_problem())
    if problem is not None:
        raise InvalidInput(f"venues.{account.key}.api_key", problem, "Use a key with the permission.")
    listed, balance, skew, _ = await asyncio.gather(
        account.networks(withdrawal.order.coin, withdrawal.order.network),
        wallet_balance(account, withdrawal.order.coin),
        clock_skew(account, clock),
        check_still_ours(withdrawal, accounts),
    )
    if not account.venue.lists_closed_networks and withdrawal.order.network not in {rules.network for rules in listed}:
        message = f"{account.key} lists no way out over {withdrawal.order.network} now: it is closed, or misspelt"
        return not_now("NETWORK_SUSPENDED", message, retry_after_seconds=PASSING_SECONDS)
    rules = network_rules(withdrawal, listed)
    check_amount_rules(withdrawal, rules)
    check_ceiling_holds(withdrawal, rules, controls)
    check_memo(withdrawal, rules)
    check_address(withdrawal, rules)
    check_balance(withdrawal, rules, balance)
    await told_of(replace(withdrawal, order=await as_saved(withdrawal)))
    return _passing_problem(account, maintenance, rules, skew) or _not_our_turn(withdrawal)


def _passing_problem(
    account: VenueAccount, maintenance: str | None, rules: NetworkRules, skew: timedelta
) -> ExecutionResult | None:
    if maintenance is not None:
        return not_now("VENUE_DOWN", f"{account.key}: {maintenance}", retry_after_seconds=PASSING_SECONDS)
    if not rules.withdraw_enabled:
        message = f"{account.key}: withdrawals on {rules.network} are suspended"
        return not_now("NETWORK_SUSPENDED", message, retry_after_seconds=PASSING_SECONDS)
    if skew > MAX_SKEW:
        message = f"this clock and {account.key}'s differ by {skew.total_seconds():.1f} s; synchronise this machine"
        return not_now("CLOCK_SKEW", message, retry_after_seconds=PASSING_SECONDS)
    return None


def _not_our_turn(withdrawal: Withdrawal) -> ExecutionResult | None:
    account, order = withdrawal.account, withdrawal.order
    seconds = account.seconds_until_turn(order)
    if not seconds:
        return None
    message = (
        f"{account.key} takes {order.coin} over {order.network} once in {account.venue.seconds_between_submits:g} s"
    )
    return not_now("VENUE_PACE", message, retry_after_seconds=seconds)


async def clock_skew(account: VenueAccount, clock: Clock) -> timedelta:
    """How far the venue's clock is surely off ours; the time of the request itself is given the benefit."""
    asked_at = clock.now()
    theirs = await account.server_time()
    return skew_beyond(theirs, asked_at, clock.now())


def skew_beyond(theirs: datetime, asked_at: datetime, answered_at: datetime) -> timedelta:
    """Distance of a server's time from the interval in which it was asked."""
    return max(asked_at - theirs, theirs - answered_at, timedelta())


def network_rules(withdrawal: Withdrawal, listed: tuple[NetworkRules, ...]) -> NetworkRules:
    """The rules of the order's network; raises `InvalidInput` for a network the venue does not list."""
    for rules in listed:
        if rules.network == withdrawal.order.network:
            return rules
    known = ", ".join(rules.network for rules in listed) or "none"
    raise InvalidInput(
        "config.chain",
        f"{withdrawal.account.key} has no network {withdrawal.order.network!r} for {withdrawal.order.coin}",
        f"Name one of {known} in the inventory's venues.{withdrawal.account.key}.networks.",
    )


def check_amount_rules(withdrawal: Withdrawal, rules: NetworkRules) -> None:
    """Raise `InvalidInput` for an amount that the venue would refuse, or would quietly cut."""
    asked = Decimal(withdrawal.order.amount)
    beyond = EXACT.remainder(asked, rules.step)
    if beyond != 0:
        lower = EXACT.subtract(asked, beyond)
        fix = f"Give {plain_decimal(lower)}." if lower > 0 else f"Give at least {plain_decimal(rules.step)}."
        raise InvalidInput("config.amount", f"{plain_decimal(asked)} is no multiple of {rules.step:f}", fix)
    if asked < rules.minimum:
        raise InvalidInput(
            "config.amount", f"{plain_decimal(asked)} is below the minimum", f"Give at least {rules.minimum:f}."
        )
    if rules.maximum is not None and asked > rules.maximum:
        raise InvalidInput(
            "config.amount", f"{plain_decimal(asked)} is above the maximum", f"Give at most {rules.maximum:f}."
        )
    fee = rules.fee_of(asked)
    if withdrawal.account.venue.fee_rule is not FeeRule.ON_TOP and asked <= fee:
        raise InvalidInput(
            "config.amount", f"the fee of {plain_decimal(fee)} would eat it all", "Give more than the fee."
        )
    ceiling = withdrawal.config.max_fee
    if ceiling is not None and not rules.fee_known:
        raise InvalidInput(
            "config.max_fee",
            f"{withdrawal.account.key} says what it takes only afterwards, so no ceiling can be kept",
            "Remove it from the plan, or withdraw elsewhere.",
        )
    if ceiling is not None and fee > Decimal(ceiling):
        raise InvalidInput(
            "config.max_fee",
            f"the fee is {plain_decimal(fee)}, the ceiling {ceiling}",
            "Wait, or raise the ceiling by review.",
        )


def check_ceiling_holds(withdrawal: Withdrawal, rules: NetworkRules, controls: RiskControls) -> None:
    """Raise `InvalidInput` for a template's fee ceiling where the fee is not known before it is taken."""
    if controls.max_fee is not None and not rules.fee_known:
        problem = f"{withdrawal.account.key} says what it takes only afterwards, so no ceiling can be kept"
        raise InvalidInput("risk_controls.max_fee", problem, "Remove it by review, or withdraw elsewhere.")


def check_memo(withdrawal: Withdrawal, rules: NetworkRules) -> None:
    """Raise `InvalidInput` for a memo that is missing, unwanted or misspelt. Memos are text: 007 is not 7."""
    memo = withdrawal.order.memo
    if memo is None:
        if rules.memo_required and not withdrawal.memo_waived:
            raise InvalidInput(
                "config.memo",
                f"{rules.network} needs a memo or tag",
                'Give the destination\'s memo, or say outright that it has none with "no-memo".',
            )
        return
    if not rules.memo_allowed:
        raise InvalidInput("config.memo", f"{rules.network} knows no memo", "Remove the memo.")
    if rules.memo_pattern and not re.fullmatch(rules.memo_pattern, memo):
        raise InvalidInput("config.memo", f"{memo!r} is no memo of {rules.network}", "Correct the memo.")


def check_address(withdrawal: Withdrawal, rules: NetworkRules) -> None:
    """Raise `InvalidInput` for a destination that does not look like an address of the network."""
    address = withdrawal.order.address
    if rules.address_pattern and not re.fullmatch(rules.address_pattern, address):
        raise InvalidInput("config.destination", f"{address} is no address of {rules.network}", "Correct it.")


def check_balance(withdrawal: Withdrawal, rules: NetworkRules, balance: CoinBalance) -> None:
    """Raise `InvalidInput` when the wallet cannot pay for the amount, and for the fee where it may come on top."""
    needed = Decimal(withdrawal.order.amount)
    if withdrawal.account.venue.fee_rule is not FeeRule.FROM_AMOUNT:
        needed += rules.fee_of(needed)
    if balance.free < needed:
        raise InvalidInput(
            "config.amount",
            f"{withdrawal.account.key} has {balance.free:f} {balance.coin} free and {needed:f} is needed",
            "Fund the account or give a smaller amount.",
        )
