"""What Gate says of chains, fees and limits, of keys, and of the wallets beside the spot account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.readings import decimal, field, rows, step_of, text
from qtg_dagster.lanes.cex.venue import Call, CoinBalance, NetworkRules
from qtg_dagster.lanes.cex.venues.gate.records import chain_code, coin_and_chain

OTHER_WALLETS: Mapping[str, Call] = {
    "margin": Call("privateMarginGetAccounts"),
    **{f"futures-{coin}": Call("privateFuturesGetSettleAccounts", {"settle": coin}) for coin in ("usdt", "btc")},
    "delivery-usdt": Call("privateDeliveryGetSettleAccounts", {"settle": "usdt"}),
    "options": Call("privateOptionsGetAccounts"),
}


def network_rules(chain: Mapping[str, Any], limits: Mapping[str, Any]) -> NetworkRules:
    """A chain of a coin, with the fee told by chain and the limits told by coin."""
    code = chain_code(str(field(chain, "chain", "chains")))
    tagged = str(chain.get("is_tag")) == "1"
    return NetworkRules(
        network=code,
        withdraw_enabled=all(str(chain.get(name)) == "0" for name in ("is_disabled", "is_withdraw_disabled")),
        fee=decimal(_on_chain(limits, "withdraw_fix", code), "withdraw_fix"),
        minimum=decimal(field(limits, "withdraw_amount_mini", "withdraw status"), "withdraw_amount_mini"),
        maximum=_maximum(limits),
        step=step_of(field(chain, "decimal", "chains"), "decimal"),
        memo_required=tagged,
        memo_allowed=tagged,
        memo_pattern="",
        address_pattern="",
        fee_rate=_rate(_on_chain(limits, "withdraw_percent", code)),
    )


def _on_chain(limits: Mapping[str, Any], name: str, code: str) -> Any:
    """What is told of this chain; of the coin where nothing is."""
    by_chain = limits.get(f"{name}_on_chains")
    told = {chain_code(str(key)): value for key, value in by_chain.items()} if isinstance(by_chain, dict) else {}
    return told[code] if told.get(code) is not None else field(limits, name, "withdraw status")


def _rate(percent: Any) -> Decimal:
    return decimal(str(percent).strip().removesuffix("%"), "percentage fee") / 100


def _maximum(limits: Mapping[str, Any]) -> Decimal | None:
    """The smaller one of what a withdrawal may be and what is left of the day; a limit of zero is none."""
    most = [decimal(field(limits, "withdraw_eachtime_limit", "withdraw status"), "withdraw_eachtime_limit")]
    if decimal(limits.get("withdraw_day_limit") or "0", "withdraw_day_limit") > 0:
        left = decimal(field(limits, "withdraw_day_limit_remain", "withdraw status"), "withdraw_day_limit_remain")
        most = [left, *(limit for limit in most if limit > 0)]
    else:
        most = [limit for limit in most if limit > 0]
    return min(most, default=None)


def key_problem(body: Any) -> str | None:
    """Why no key of the account may withdraw; the answer does not say which of them is ours.

    None where their rights to withdraw are not told: the venue refuses such a request before it takes it.
    """
    keys = [key for key in rows(body, "API keys") if str(key.get("state")) == "1"]
    if not keys:
        return "the venue lists no API key that is neither locked nor frozen"
    told = [right for key in keys for right in rows(key.get("perms"), "permissions") if _is_of_withdrawals(right)]
    if not told or any(right.get("read_only") is False for right in told):
        return None
    return "the API key may not withdraw; let it read and write withdrawals at the venue"


def _is_of_withdrawals(right: Mapping[str, Any]) -> bool:
    return str(right.get("name")).startswith("withdraw")


def spot_balance(row: Mapping[str, Any]) -> CoinBalance:
    """What is being withdrawn may be among what is locked: nothing tells the two apart."""
    return CoinBalance(
        coin=coin_and_chain(row)[0],
        free=decimal(field(row, "available", "balance"), "available"),
        locked=decimal(field(row, "locked", "balance"), "locked"),
        withdrawing=Decimal(0),
    )


def other_wallet(wallet: str, body: Any) -> tuple[CoinBalance, ...]:
    """Margin is told by pairs, each with both its coins; the others hold one coin each."""
    if wallet != "margin":
        total, free = (decimal(field(body, name, wallet), name) for name in ("total", "available"))
        return (CoinBalance(coin_and_chain(body)[0], free, max(total - free, Decimal(0)), Decimal(0)),)
    sides = [field(pair, side, wallet) for pair in rows(body, wallet) for side in ("base", "quote")]
    return tuple(_added(sides))


def _added(sides: Sequence[Any]) -> Iterable[CoinBalance]:
    held: dict[str, CoinBalance] = {}
    for side in sides:
        coin = text(field(side, "currency", "margin")) or ""
        free, locked = (decimal(field(side, name, "margin"), name) for name in ("available", "locked"))
        before = held.get(coin, CoinBalance(coin, Decimal(0), Decimal(0), Decimal(0)))
        held[coin] = CoinBalance(coin, before.free + free, before.locked + locked, Decimal(0))
    return held.values()
