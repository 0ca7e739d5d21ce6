"""Withdrawals: the venue's checks, and the hold on the books."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.sandbox.exchange.books import Books, Bucket, MoveKind
from qtg_dagster.sandbox.exchange.config import NetworkConfig, VenueConfig
from qtg_dagster.sandbox.exchange.crash import CrashPoint, crash_point
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.ledger import Ledger

if TYPE_CHECKING:
    from qtg_dagster.sandbox.exchange.dialect import Repeats

_AMOUNT = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


class WithdrawalStatus(IntEnum):
    """The ledger's numbers, which are Binance's; deposits have others, and each wire its own words."""

    EMAIL_SENT = 0
    CANCELLED = 1
    AWAITING_APPROVAL = 2
    REJECTED = 3
    PROCESSING = 4
    FAILURE = 5
    COMPLETED = 6


RETURNED = (WithdrawalStatus.CANCELLED, WithdrawalStatus.REJECTED, WithdrawalStatus.FAILURE)


@dataclass(frozen=True, slots=True)
class WithdrawalOrder:
    """A withdrawal as a client asks for it, read from whatever wire. `network` None = the coin's default.

    `includes_fee` says whether the fee comes out of `amount` or on top of it.
    """

    coin: str
    address: str
    amount: str
    network: str | None = None
    tag: str | None = None
    order_id: str | None = None
    includes_fee: bool = True


@dataclass(frozen=True, slots=True)
class WithdrawalAsked:
    """A withdrawal that passed every check of the venue."""

    coin: str
    network: str
    address: str
    tag: str | None
    gross: Amount
    fee: Amount
    order_id: str | None


class WithdrawalDesk:
    """One venue's withdrawals."""

    def __init__(
        self, venue: str, config: VenueConfig, ledger: Ledger, books: Books, *, repeats: Repeats = "accept"
    ) -> None:
        self._venue = venue
        self._config = config
        self._ledger = ledger
        self._books = books
        self._repeats = config.duplicate_order_ids or repeats

    def check(self, order: WithdrawalOrder, *, disabled: tuple[str, ...]) -> WithdrawalAsked:
        """Everything the venue checks before it accepts, balance excepted; raises `Declined`."""
        listed = self._config.coins.get(order.coin)
        if listed is None:
            raise Declined(Reason.UNKNOWN_COIN)
        name = order.network or listed.default_network()
        network = listed.networks.get(name)
        if network is None:
            raise Declined(Reason.UNKNOWN_NETWORK)
        if f"{order.coin}/{name}" in disabled:
            raise Declined(Reason.NETWORK_CLOSED)
        self._check_address(order)
        amount = self._amount(order, name, network)
        fee = self._config.amount(order.coin, network.withdraw_fee)
        return WithdrawalAsked(
            coin=order.coin,
            network=name,
            address=order.address,
            tag=None,
            gross=amount if order.includes_fee else amount + fee,
            fee=fee,
            order_id=order.order_id,
        )

    def _check_address(self, order: WithdrawalOrder) -> None:
        if not _ADDRESS.fullmatch(order.address) or not _checksum_holds(order.address):
            raise Declined(Reason.BAD_ADDRESS)
        if order.tag is not None:
            raise Declined(Reason.TAG_NOT_TAKEN)
        if not self._config.allows(order.address):
            raise Declined(Reason.ADDRESS_NOT_SAVED)

    def _amount(self, order: WithdrawalOrder, name: str, network: NetworkConfig) -> Amount:
        coin, text = order.coin, order.amount
        if not _AMOUNT.fullmatch(text):
            raise Declined(Reason.MALFORMED_AMOUNT)
        step = self._config.amount(coin, self._config.step_text(coin, name))
        try:
            amount = Amount.parse(self._config.asset(coin), text.lstrip("0") if text[0:2] == "00" else text)
        except InvalidInput:
            raise Declined(Reason.OFF_STEP, step=step.to_text()) from None
        if amount.base_units % step.base_units:
            raise Declined(Reason.OFF_STEP, step=step.to_text())
        if amount < self._config.amount(coin, network.withdraw_min) or not amount.base_units:
            raise Declined(Reason.BELOW_MINIMUM, minimum=network.withdraw_min)
        if amount > self._config.amount(coin, network.withdraw_max):
            raise Declined(Reason.ABOVE_MAXIMUM, maximum=network.withdraw_max)
        if order.includes_fee and amount <= self._config.amount(coin, network.withdraw_fee):
            raise Declined(Reason.NOT_ABOVE_FEE)
        return amount

    def accept(self, asked: WithdrawalAsked, *, now_ms: int, key: str, told: bool = False) -> str:
        """Hold the gross amount and record the withdrawal in one commit; returns its id or raises `Declined`."""
        earlier = self._earlier(asked.order_id)
        if earlier is not None and self._repeats == "return_first":
            return earlier
        if earlier is not None and self._repeats == "refuse":
            raise Declined(Reason.REPEATED_ORDER_ID)
        if self._books.balance(self._venue, asked.coin).free < asked.gross:
            raise Declined(Reason.INSUFFICIENT)
        with self._ledger.transaction():
            self._insert(key, asked, now_ms)
            if told:
                self._ledger.write("INSERT INTO told_withdrawals (withdrawal_id) VALUES (?)", (key,))
            self._books.post(self._venue, MoveKind.WITHDRAWAL_HOLD, asked.gross, Bucket.FREE, Bucket.WITHDRAWING, key)
        crash_point(CrashPoint.WITHDRAWAL_RECORDED)
        return key

    def _insert(self, key: str, asked: WithdrawalAsked, now_ms: int) -> None:
        self._ledger.write(
            "INSERT INTO withdrawals"
            " (id, venue, order_id, coin, network, address, tag, net, fee, status, applied_ms)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key,
                self._venue,
                asked.order_id,
                asked.coin,
                asked.network,
                asked.address,
                asked.tag,
                (asked.gross - asked.fee).to_text(),
                asked.fee.to_text(),
                WithdrawalStatus.AWAITING_APPROVAL.value,
                now_ms,
            ),
        )

    def rows_of(self, key: str) -> list[sqlite3.Row]:
        """The withdrawal of this id as the ledger has it."""
        return self._ledger.rows("SELECT * FROM withdrawals WHERE venue = ? AND id = ?", (self._venue, key))

    def _earlier(self, order_id: str | None) -> str | None:
        if order_id is None:
            return None
        found = self._ledger.row(
            "SELECT id FROM withdrawals WHERE venue = ? AND order_id = ? ORDER BY seq", (self._venue, order_id)
        )
        return None if found is None else str(found["id"])

    def give_back(self, key: str, status: WithdrawalStatus, info: str, *, now_ms: int) -> None:
        """End a withdrawal without paying and return the hold; raises `Conflict` once it is signed for the chain."""
        row = self._ledger.row("SELECT * FROM withdrawals WHERE venue = ? AND id = ?", (self._venue, key))
        if row is None:
            raise NotFound(f"venue {self._venue} has no withdrawal {key}")
        if status not in RETURNED:
            raise InvalidInput("status", f"{status} keeps the funds", "Give 1, 3 or 5.")
        signed = self._ledger.row("SELECT 1 FROM payouts WHERE withdrawal_id = ?", (key,))
        if signed is not None or row["status"] not in (0, 2, 4):
            raise Conflict(f"withdrawal {key} is already signed or ended; its funds cannot be returned")
        with self._ledger.transaction():
            self.close_unpaid(row, status, info, now_ms)

    def close_unpaid(self, row: sqlite3.Row, status: WithdrawalStatus, info: str, now_ms: int) -> None:
        """Within a transaction: set the end status and move the hold back to free."""
        self._ledger.write(
            "UPDATE withdrawals SET status = ?, info = ?, completed_ms = ? WHERE id = ?",
            (status.value, info, now_ms, row["id"]),
        )
        self._books.post(
            self._venue,
            MoveKind.WITHDRAWAL_RETURN,
            self._config.amount(row["coin"], row["net"]) + self._config.amount(row["coin"], row["fee"]),
            Bucket.WITHDRAWING,
            Bucket.FREE,
            row["id"],
        )

    def rows(self) -> list[sqlite3.Row]:
        """All withdrawals of the venue with their payouts, newest first."""
        return self._ledger.rows(
            "SELECT w.*, p.tx_hash, p.nonce, p.broadcast FROM withdrawals w"
            " LEFT JOIN payouts p ON p.withdrawal_id = w.id WHERE w.venue = ? ORDER BY w.seq DESC",
            (self._venue,),
        )


def _checksum_holds(address: str) -> bool:
    if address[2:] in (address[2:].lower(), address[2:].upper()):
        return True
    from eth_utils.address import is_checksum_address

    return is_checksum_address(address)
