"""KuCoin's rows: our id in a remark, a failure that says elsewhere whether funds came back, deposits without an id."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.lanes.cex.outcome import usable_id
from qtg_dagster.lanes.cex.readings import data_of_success, decimal, field, moment, rows, state_in, text
from qtg_dagster.lanes.cex.venue import DepositRow, RowState, WithdrawalRow

SUCCESS = "200000"
WITHDRAWAL_STATES: Mapping[str, RowState] = {
    **dict.fromkeys(("REVIEW", "PROCESSING", "WALLET_PROCESSING"), RowState.PENDING),
    "SUCCESS": RowState.DONE,
    "FAILURE": RowState.HELD,  # until it is said that the funds came back
}
#: What stands beside an end, and what the end then means: nothing else may stand there.
RETURN_STATES: Mapping[tuple[str, str], RowState] = {
    ("SUCCESS", "NOT_RETURN"): RowState.DONE,
    ("FAILURE", "NOT_RETURN"): RowState.HELD,
    ("FAILURE", "PROCESSING"): RowState.PENDING,
    ("FAILURE", "SUCCESS"): RowState.FAILED,
    # Paid out, and on its way back or back: money moved twice, and only the venue can say where it is.
    ("SUCCESS", "PROCESSING"): RowState.HELD,
    ("SUCCESS", "SUCCESS"): RowState.HELD,
}
DEPOSIT_STATES: Mapping[str, RowState] = {
    "PROCESSING": RowState.PENDING,
    "WAIT_TRM_MGT": RowState.HELD,  # a rule of the customer's country wants more first
    "SUCCESS": RowState.DONE,
    "FAILURE": RowState.FAILED,
}
#: Names that answers and people have for chains, where it is not the id in capitals.
CHAIN_ALIASES: Mapping[str, str] = {
    "erc20": "eth",
    "trc20": "trx",
    "bep20": "bsc",
    "bep2": "bnb",
    "btc-segwit": "bech32",
    "polygon": "matic",
    "arbitrumone": "arbitrum",
    "arbitrum one": "arbitrum",
    "avax c-chain": "avaxc",
    "op": "optimism",
    "solana": "sol",
}
_MADE_UP = "row-"


def chain_code(name: str) -> str:
    """A chain's id: lower case; some answers name it instead."""
    folded = name.strip().lower()
    return CHAIN_ALIASES.get(folded, folded)


def data_of(body: Any, what: str) -> Any:
    """What an answer holds; a code other than success, and success with nothing in it, hold nothing."""
    data_of_success(body, SUCCESS, what)
    return field(body, "data", what)


def page_of(body: Any, what: str) -> Sequence[Mapping[str, Any]]:
    """The rows of a page."""
    return rows(field(data_of(body, what), "items", what), what)


def withdrawals_in(body: Any) -> Sequence[Mapping[str, Any]]:
    """The rows of a page, or the one withdrawal that was asked for by its id."""
    found = data_of(body, "withdrawals")
    if isinstance(found, dict) and "items" not in found and usable_id(found.get("id")) is not None:
        return [found]
    return page_of(body, "withdrawals")


def withdrawal_row(row: Mapping[str, Any]) -> WithdrawalRow:
    """A withdrawal; `amount` arrives, as the fee is asked for beside it."""
    state, raw, listed = _withdrawal_state(row)
    chain = text(row.get("chainId")) or text(row.get("chain"))
    withdrawal_id = usable_id(row.get("id"))
    read = WithdrawalRow(
        withdrawal_id=withdrawal_id or "",
        client_id=text(row.get("remark")),
        coin=str(field(row, "currency", "withdrawal")),
        network=None if chain is None else chain_code(chain),
        address=text(row.get("address")),
        memo=text(row.get("memo")),
        amount=decimal(field(row, "amount", "withdrawal"), "amount"),
        fee=decimal(row.get("fee") or "0", "fee"),
        state=state,
        raw_status=raw,
        status_listed=listed,
        tx_id=_transaction(row),
        internal=row.get("isInner") is True,
        applied_at=moment(row["createdAt"]) if row.get("createdAt") else None,
        raw=row,
    )
    if withdrawal_id is not None:
        return read
    parts = (read.coin, read.network, read.address, read.memo, plain_decimal(read.amount), read.client_id)
    return replace(read, withdrawal_id=_MADE_UP + _digest(*parts, row.get("createdAt")))


def is_made_up(withdrawal_id: str) -> bool:
    """Whether an id is ours for a row that came without one: the venue cannot be asked for it."""
    return withdrawal_id.startswith(_MADE_UP)


def _withdrawal_state(row: Mapping[str, Any]) -> tuple[RowState, str, bool]:
    """What was returned belongs to the status; what was returned in part, or as another coin, is no full return."""
    status, returned = str(field(row, "status", "withdrawal")), text(row.get("returnStatus"))
    state, listed = state_in(WITHDRAWAL_STATES, status)
    if returned is None or (state is RowState.PENDING and listed):
        return state, status, listed
    raw = f"{status} {returned}"
    state = RETURN_STATES.get((status, returned), RowState.PENDING)
    listed = (status, returned) in RETURN_STATES
    if state is RowState.FAILED and not _came_back_in_full(row):
        state = RowState.HELD
    return state, raw, listed


def _came_back_in_full(row: Mapping[str, Any]) -> bool:
    told = text(row.get("returnAmount"))
    if told is None:
        return True
    asked = decimal(field(row, "amount", "withdrawal"), "amount")
    same_coin = text(row.get("returnCurrency")) in (None, text(row.get("currency")))
    return same_coin and decimal(told, "returnAmount") >= asked


def _transaction(row: Mapping[str, Any]) -> str | None:
    """The hash without the address that may stand behind it."""
    told = text(row.get("walletTxId"))
    return None if told is None else text(told.partition("@")[0])


def deposit_rows(page: Sequence[Mapping[str, Any]]) -> tuple[DepositRow, ...]:
    """Deposits have no id: what they are makes one, and equal ones on one page are counted."""
    found, seen = [], dict[str, int]()
    for row in page:
        read = _deposit(row)
        count = seen[read.deposit_id] = seen.get(read.deposit_id, 0) + 1
        found.append(read if count == 1 else replace(read, deposit_id=f"{read.deposit_id}-{count}"))
    return tuple(found)


def _deposit(row: Mapping[str, Any]) -> DepositRow:
    status = str(field(row, "status", "deposit"))
    state, listed = state_in(DEPOSIT_STATES, status)
    chain, tx_id, told = text(row.get("chain")), _transaction(row), text(row.get("walletTxId")) or ""
    address = text(row.get("address")) or text(told.partition("@")[2])
    coin, memo = str(field(row, "currency", "deposit")), text(row.get("memo"))
    network = None if chain is None else chain_code(chain)
    amount = decimal(field(row, "amount", "deposit"), "amount")
    return DepositRow(
        deposit_id=_digest(coin, network, tx_id, address, memo, plain_decimal(amount), row.get("createdAt")),
        coin=coin,
        network=network,
        address=address,
        memo=memo,
        amount=amount,
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=tx_id,
        inserted_at=moment(row["createdAt"]) if row.get("createdAt") else None,
        raw=row,
    )


def _digest(*parts: Any) -> str:
    """Thirty-two letters and digits, the same whenever and however a row of that content is read."""
    content = "\x1f".join("" if part is None else str(part) for part in parts)
    return hashlib.sha256(b"qtg.kucoin.row.v1:" + content.encode()).hexdigest()[:32]
