"""Gate's rows: what its words mean, amounts with the fee in them, and DONE that is done only with a block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.matching import EXACT
from qtg_dagster.lanes.cex.readings import decimal, field, ident, moment_of_seconds, state_in, text
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import DepositRow, RowState, WithdrawalRow

#: BCODE, a code that is given to somebody, says nothing of how it went: it is left out, so it is pending and marked.
WITHDRAWAL_STATES: Mapping[str, RowState] = {
    **dict.fromkeys(("REQUEST", "VERIFY", "REVIEW", "MANUAL", "DMOVE", "PEND", "PROCES"), RowState.PENDING),
    **dict.fromkeys(("SPLITPEND", "LOCKED", "EXTPEND", "CANCELPEND"), RowState.PENDING),
    "FVERIFY": RowState.HELD,  # waits for the owner's face
    "FAIL": RowState.HELD,  # failed on the chain, which is to be confirmed: it may yet arrive, or be sent again
    "DONE": RowState.DONE,  # only with a block
    "INVALID": RowState.FAILED,
    "REJECT": RowState.FAILED,
    "CANCEL": RowState.CANCELLED,
}
DEPOSIT_STATES: Mapping[str, RowState] = {
    **dict.fromkeys(("REVIEW", "PEND", "TRACK", "MANUAL"), RowState.PENDING),
    "DEP_CREDITED": RowState.LOCKED,  # credited, cannot be withdrawn yet
    "DONE": RowState.DONE,
    "BLOCKED": RowState.HELD,
    "INVALID": RowState.FAILED,
}
#: What may stand beside BLOCKED; nothing else may.
REFUND_STATES: Mapping[str, RowState] = {
    **dict.fromkeys(("", "REFUNDING", "REFUND_FAILED", "REJECTED"), RowState.HELD),
    "REFUNDED": RowState.FAILED,
}
NETWORK_ALIASES: Mapping[str, str] = {
    "ERC20": "ETH",
    "TRC20": "TRX",
    "BEP20": "BSC",
    "SPL": "SOL",
    "ARBITRUM": "ARBEVM",
    "ARBITRUMONE": "ARBEVM",
    "OPTIMISM": "OPETH",
    "BASE": "BASEEVM",
    "POLYGON": "MATIC",
    "AVAXC": "AVAX_C",
}
_INTERNAL = re.compile(r"(?i)^internal (transaction|transfer)\b")


def chain_code(name: str) -> str:
    """The venue's code of a chain; its answers spell some in lower case."""
    return NETWORK_ALIASES.get(name.upper(), name.upper())


def coin_and_chain(row: Mapping[str, Any]) -> tuple[str, str | None]:
    """Older rows name the chain with the coin: USDT_TRX."""
    coin, _, chain = str(field(row, "currency", "row")).upper().partition("_")
    told = text(row.get("chain")) or chain or None
    return coin, None if told is None else chain_code(told)


def _amount(row: Mapping[str, Any], what: str) -> Decimal:
    """Codes that are given to somebody have a sign; which way it went is told by the record that was asked."""
    told = field(row, "amount", what)
    given = str(told)
    return decimal(given.removeprefix("-") if str(row.get("id")).startswith("b") else given, "amount")


def withdrawal_row(row: Mapping[str, Any]) -> WithdrawalRow:
    """A withdrawal; `amount` is what was asked for, the fee in it."""
    status = str(field(row, "status", "withdrawal"))
    state, listed = state_in(WITHDRAWAL_STATES, status)
    tx_id, (coin, network) = text(row.get("txid")), coin_and_chain(row)
    internal = bool(tx_id and _INTERNAL.match(tx_id))
    if state is RowState.DONE and not internal and not _is_in_a_block(row):
        state = RowState.PENDING
    gross, fee = _amount(row, "withdrawal"), decimal(row.get("fee") or "0", "fee")
    if fee > gross:
        raise LookupFailed("MALFORMED", f"withdrawal: a fee of {fee} in an amount of {gross}")
    return WithdrawalRow(
        withdrawal_id=ident(row, "id", "withdrawal"),
        client_id=text(row.get("withdraw_order_id")),
        coin=coin,
        network=network,
        address=text(row.get("address")),
        memo=text(row.get("memo")),
        amount=gross,
        fee=fee,
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=tx_id,
        internal=internal,
        applied_at=moment_of_seconds(row["timestamp"]) if row.get("timestamp") else None,
        raw=row,
    )


def without_fee(row: WithdrawalRow) -> Decimal:
    """What arrives, to the last digit."""
    return EXACT.subtract(row.amount, row.fee)


def _is_in_a_block(row: Mapping[str, Any]) -> bool:
    number = str(row.get("block_number") or "0").strip()
    return number.isascii() and number.isdigit() and int(number) > 0


def deposit_row(row: Mapping[str, Any]) -> DepositRow:
    """A deposit; what a refund of a blocked one has come to belongs to its status."""
    status, refund = str(field(row, "status", "deposit")), text(row.get("refund_status")) or ""
    state, listed = state_in(DEPOSIT_STATES, status)
    if refund:
        state, known = state_in(REFUND_STATES, refund)
        listed, status = known and status == "BLOCKED", f"{status} {refund}"
        state = state if listed else RowState.PENDING
    coin, network = coin_and_chain(row)
    return DepositRow(
        deposit_id=ident(row, "id", "deposit"),
        coin=coin,
        network=network,
        address=text(row.get("address")),
        memo=text(row.get("memo")),
        amount=_amount(row, "deposit"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("txid")),
        inserted_at=moment_of_seconds(row["timestamp"]) if row.get("timestamp") else None,
        raw=row,
    )
