"""Bitget's words and codes, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping

from qtg_dagster.lanes.cex.venue import Access, RowState

_UNDER_WAY = ("pending", "pending_review", "first_audit", "recheck", "risk_audit", "wait_small_check", "deposit_check")
_BEING_BOOKED = ("wait_frozen", "wait_create_order", "dealing", "wait_unfreeze", "wait_deducted", "wait_recharge")
_ON_ITS_WAY = ("wallet_processing", "pre_success", "wait_recharge_system", "unknown")
#: Something went wrong, and nothing says that the funds are back: the venue may yet send, or give back.
_GONE_WRONG = ("wallet_fail", "pending_fail", "pending_review_fail", "frozen_fail", "deposit_check_fail")
_PENDING = dict.fromkeys((*_UNDER_WAY, *_BEING_BOOKED, *_ON_ITS_WAY), RowState.PENDING)
_HELD = dict.fromkeys((*_GONE_WRONG, "recharge_fail_risk_wait_to_system"), RowState.HELD)
WITHDRAWAL_STATES: Mapping[str, RowState] = {
    **_PENDING,
    **_HELD,
    "success": RowState.DONE,
    "fail": RowState.FAILED,
    "reject": RowState.FAILED,
    "cancel": RowState.CANCELLED,
}
DEPOSIT_STATES: Mapping[str, RowState] = {
    **_PENDING,
    **_HELD,
    "success": RowState.DONE,
    "fail": RowState.FAILED,
}
#: Those not in CONFIRM_FIRST do not depend on what else was withdrawn: no copy of a taken request is first to get one.
REFUSALS = frozenset(
    {"40001", "40002", "40003", "40004", "40005", "40006", "40007", "40008", "40009", "40011", "40012", "40014"}
    | {"40018", "40036", "40037", "40038", "40085"}  # the key
    | {"11000", "43111", "47003"}  # the address book, and parameters
    | {"43112", "43114", "43116", "43121", "43124"}  # amount, tag and destination
    | {"43012"}
)
#: Too late; and too little left, which is what a copy of a request finds that took the rest.
CONFIRM_FIRST = frozenset({"40004", "40005", "40008", "43012"})
DUPLICATES = frozenset({"25212", "40786", "43118", "45034", "50060"})
NO_WALLET = frozenset({"40807", "50021"})
ACCESS_CODES: Mapping[str, Access] = {
    **dict.fromkeys(("40001", "40006", "40037", "40041"), Access.WRONG_KEY),
    **dict.fromkeys(("40002", "40003", "40009"), Access.WRONG_SIGNATURE),
    **dict.fromkeys(("40004", "40005", "40008", "40078"), Access.CLOCK),
    **dict.fromkeys(("40011", "40012", "40036"), Access.WRONG_PASSPHRASE),
    **dict.fromkeys(("40014", "40040"), Access.NO_PERMISSION),
    **dict.fromkeys(("22010", "40018", "40038"), Access.IP_NOT_ALLOWED),
    "40085": Access.ACCOUNT_KIND,
    "40200": Access.MAINTENANCE,
}
#: Chains are called ERC20 here and erc20 there, and some by names of their own.
_CHAINS = ("ERC20", "TRC20", "BEP20", "ArbitrumOne", "Optimism", "Polygon", "C-Chain", "SOL", "BTC", "XRP")
NETWORK_ALIASES: Mapping[str, str] = {
    **{name.upper(): name for name in _CHAINS},
    "ETH": "ERC20",
    "TRX": "TRC20",
    "ARBITRUM": "ArbitrumOne",
    "MATIC": "Polygon",
    "AVAXC": "C-Chain",
    "SOLANA": "SOL",
}
#: A chain's own coin is on ETH where its tokens are on ERC20.
_OWN_CHAINS: Mapping[tuple[str, str], str] = {("ETH", "ERC20"): "ETH", ("TRX", "TRC20"): "TRX"}
BENEFICIARY = ("memberCode", "identityType", "companyName", "firstName", "lastName")


def chain_of(coin: str, network: str) -> str:
    """What a network is called for a coin."""
    return _OWN_CHAINS.get((coin, network), network)
