"""What KuCoin says of chains, fees and limits, of keys, and of its accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.readings import decimal, field, rows, step_of, text
from qtg_dagster.lanes.cex.venue import CoinBalance, DepositAddress, NetworkRules
from qtg_dagster.lanes.cex.venues.kucoin.records import chain_code, data_of

#: The right to withdraw: what its documents call it, and what keys of an older make call it.
_WITHDRAWS = frozenset({"withdrawal", "withdraw", "transfer"})


def network_rules(body: Any, coin: str) -> tuple[NetworkRules, ...]:
    """The chains of one coin."""
    listed = data_of(body, "currency")
    if str(field(listed, "currency", "currency")) != coin:
        return ()
    chains = rows(listed.get("chains") or [], "chains")
    return tuple(_chain(row, listed) for row in chains if text(row.get("chainId")) is not None)


def _chain(row: Mapping[str, Any], coin: Mapping[str, Any]) -> NetworkRules:
    """The fee is the larger one of a least fee and a part of the amount: their sum is never too little."""
    places = row.get("withdrawPrecision")
    tagged = row.get("needTag") is True
    return NetworkRules(
        network=chain_code(str(row["chainId"])),
        withdraw_enabled=row.get("isWithdrawEnabled") is True,
        fee=decimal(field(row, "withdrawalMinFee", "chains"), "withdrawalMinFee"),
        minimum=decimal(field(row, "withdrawalMinSize", "chains"), "withdrawalMinSize"),
        maximum=_most(row.get("maxWithdraw")),
        step=step_of(places if places is not None else field(coin, "precision", "currency"), "withdrawPrecision"),
        memo_required=tagged,
        memo_allowed=tagged,
        memo_pattern="",
        address_pattern="",
        fee_rate=decimal(row.get("withdrawFeeRate") or "0", "withdrawFeeRate"),
    )


def with_quota(body: Any, rules: NetworkRules) -> NetworkRules:
    """What is left of the day is a limit too, and a closed way may be told here alone."""
    quota = data_of(body, "quota")
    left = decimal(field(quota, "remainAmount", "quota"), "remainAmount")
    return replace(
        rules,
        withdraw_enabled=rules.withdraw_enabled and quota.get("isWithdrawEnabled") is True,
        fee=max(rules.fee, decimal(quota.get("withdrawMinFee") or "0", "withdrawMinFee")),
        minimum=max(rules.minimum, decimal(quota.get("withdrawMinSize") or "0", "withdrawMinSize")),
        maximum=left if rules.maximum is None else min(left, rules.maximum),
    )


def _most(told: Any) -> Decimal | None:
    """Nothing told, or zero, is no limit."""
    limit = decimal(told or "0", "maxWithdraw")
    return limit if limit > 0 else None


def key_problem(body: Any) -> str | None:
    """Why the key may not withdraw; None when it may."""
    key = data_of(body, "API key")
    rights = {right.strip().lower() for right in str(field(key, "permission", "API key")).split(",")}
    if rights & _WITHDRAWS:
        return None
    return "the API key may not withdraw; let it withdraw at the venue, which only keys of the main account can"


def balances_of(body: Any, kind: str) -> tuple[CoinBalance, ...]:
    """The accounts of one kind; what is being withdrawn is on hold, beside what is in orders."""
    return tuple(
        CoinBalance(
            coin=str(field(row, "currency", "accounts")),
            free=decimal(field(row, "available", "accounts"), "available"),
            locked=decimal(field(row, "holds", "accounts"), "holds"),
            withdrawing=Decimal(0),
        )
        for row in rows(data_of(body, "accounts"), "accounts")
        if field(row, "type", "accounts") == kind
    )


def deposit_addresses(body: Any) -> tuple[DepositAddress, ...]:
    """Addresses of a coin, each with its chain."""
    return tuple(
        DepositAddress(
            network=chain_code(str(field(row, "chainId", "deposit address"))),
            address=str(field(row, "address", "deposit address")),
            memo=text(row.get("memo")),
        )
        for row in rows(data_of(body, "deposit addresses"), "deposit addresses")
    )
