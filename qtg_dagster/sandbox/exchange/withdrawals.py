"""Withdrawals: the venue's checks, the hold on the books, and the history it shows."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from uuid import uuid4

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.sandbox.exchange.books import Books, Bucket, MoveKind
from qtg_dagster.sandbox.exchange.config import NetworkConfig, VenueConfig
from qtg_dagster.sandbox.exchange.crash import CrashPoint, crash_point
from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, fixed, utc_text

_AMOUNT = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


class WithdrawalStatus(IntEnum):
    """Binance's withdrawal numbers; deposits have another table."""

    EMAIL_SENT = 0
    CANCELLED = 1
    AWAITING_APPROVAL = 2
    REJECTED = 3
    PROCESSING = 4
    FAILURE = 5
    COMPLETED = 6


RETURNED = (WithdrawalStatus.CANCELLED, WithdrawalStatus.REJECTED, WithdrawalStatus.FAILURE)


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

    def __init__(self, venue: str, config: VenueConfig, ledger: Ledger, books: Books) -> None:
        self._venue = venue
        self._config = config
        self._ledger = ledger
        self._books = books

    def check(self, parameters: Parameters, *, disabled: tuple[str, ...]) -> WithdrawalAsked:
        """Everything the venue checks before it accepts, balance excepted; raises `Refusal`."""
        coin, address = parameters.required("coin"), parameters.required("address")
        text = parameters.required("amount")
        listed = self._config.coins.get(coin)
        if listed is None:
            raise Refusal(-4018, "We don't have this asset.")
        name = parameters.text("network") or listed.default_network()
        network = listed.networks.get(name)
        if network is None or f"{coin}/{name}" in disabled:
            raise Refusal(-4019, "The current currency is not open for withdrawal")
        self._check_address(address, parameters.text("addressTag"))
        gross = self._gross(coin, name, network, text)
        if parameters.text("walletType") == "1":
            raise Refusal(-4026, "You have insufficient balance.")
        return WithdrawalAsked(
            coin=coin,
            network=name,
            address=address,
            tag=None,
            gross=gross,
            fee=self._config.amount(coin, network.withdraw_fee),
            order_id=parameters.text("withdrawOrderId"),
        )

    def _check_address(self, address: str, tag: str | None) -> None:
        if not _ADDRESS.fullmatch(address) or not _checksum_holds(address):
            raise Refusal(-4007, "Address validation is not passed.")
        if tag is not None:
            raise Refusal(-4106, "This network does not support an address tag.")
        allowed = self._config.address_whitelist
        if allowed is not None and address.lower() not in allowed:
            raise Refusal(-4035, "This address is not on the whitelist. Please join and try again.")

    def _gross(self, coin: str, name: str, network: NetworkConfig, text: str) -> Amount:
        if not _AMOUNT.fullmatch(text):
            raise Refusal(-1100, "Illegal characters found in parameter 'amount'; legal range is a plain decimal.")
        step = self._config.amount(coin, self._config.step_text(coin, name))
        multiple = f"Asset withdrawal must be an integer multiple of {step.to_text()}."
        try:
            gross = Amount.parse(self._config.asset(coin), text.lstrip("0") if text[0:2] == "00" else text)
        except InvalidInput:
            raise Refusal(-4021, multiple) from None
        if gross.base_units % step.base_units:
            raise Refusal(-4021, multiple)
        if gross < self._config.amount(coin, network.withdraw_min) or not gross.base_units:
            raise Refusal(-4022, f"Not less than the minimum pick-up quantity {network.withdraw_min}.")
        if gross > self._config.amount(coin, network.withdraw_max):
            raise Refusal(-4023, "Within 24 hours, the withdrawal exceeds the maximum amount.")
        if gross <= self._config.amount(coin, network.withdraw_fee):
            raise Refusal(-4028, "The amount of withdrawal must be greater than the Commission.")
        return gross

    def accept(self, asked: WithdrawalAsked, *, now_ms: int) -> str:
        """Hold the gross amount and record the withdrawal in one commit; returns its id or raises `Refusal`."""
        earlier = self._earlier(asked.order_id)
        if earlier is not None and self._config.duplicate_order_ids == "return_first":
            return earlier
        if earlier is not None and self._config.duplicate_order_ids == "refuse":
            raise Refusal(-4067, "This withdrawOrderId was used before.")  # Binance publishes no number for it
        if self._books.balance(self._venue, asked.coin).free < asked.gross:
            raise Refusal(-4026, "You have insufficient balance.")
        key = uuid4().hex
        with self._ledger.transaction():
            self._insert(key, asked, now_ms)
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


def withdrawal_row(row: sqlite3.Row) -> dict[str, Any]:
    """A withdrawal as Binance's history shows it: `amount` is net, requested = amount + transactionFee."""
    shown: dict[str, Any] = {
        "id": row["id"],
        "amount": fixed(row["net"]),
        "transactionFee": row["fee"],
        "coin": row["coin"],
        "status": row["status"],
        "address": row["address"],
        "txId": row["tx_hash"] if row["broadcast"] else "",
        "applyTime": utc_text(row["applied_ms"]),
        "network": row["network"],
        "transferType": 0,
        "info": row["info"],
        "confirmNo": row["confirmations"],
        "walletType": 0,
        "txKey": "",
    }
    if row["order_id"] is not None:
        shown["withdrawOrderId"] = row["order_id"]
    if row["tag"] is not None:
        shown["addressTag"] = row["tag"]
    if row["completed_ms"] is not None:
        shown["completeTime"] = utc_text(row["completed_ms"])
    return shown


def _checksum_holds(address: str) -> bool:
    if address[2:] in (address[2:].lower(), address[2:].upper()):
        return True
    from eth_utils.address import is_checksum_address

    return is_checksum_address(address)
