"""Pays withdrawals out on the chain: bytes on the disk before they leave, one nonce book, every step resumable."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.books import Bucket, MoveKind
from qtg_dagster.sandbox.exchange.chain import ChainClient, ChainRefused
from qtg_dagster.sandbox.exchange.config import ChainConfig, private_file
from qtg_dagster.sandbox.exchange.crash import CrashPoint, crash_point
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

_log = logging.getLogger(__name__)
_BATCH = 200
_OPEN = (
    "SELECT w.*, p.tx_hash, p.raw, p.broadcast FROM withdrawals w LEFT JOIN payouts p ON p.withdrawal_id = w.id"
    " WHERE w.venue = ? AND w.status IN (2, 4) ORDER BY w.seq LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class Fees:
    """What the next transactions pay per gas, in wei."""

    max_fee: int
    priority: int


class PayoutDesk:
    """One venue's hot wallet at work. `step()` may be called again after a crash at any point."""

    def __init__(self, venue: Venue, chain: ChainClient, config: ChainConfig) -> None:
        self._venue = venue
        self._chain = chain
        self._config = config
        self._account = _hot_wallet(venue)
        self._warned: dict[str, str] = {}

    @property
    def address(self) -> str:
        return str(self._account.address).lower()

    @property
    def paused(self) -> bool:
        """Whether new payouts are held back; survives restarts."""
        return self._venue.ledger.meta(f"payouts_paused:{self._venue.key}") == "yes"

    def pause(self, paused: bool) -> None:
        """Hold new payouts back or let them go; those already signed go on."""
        with self._venue.ledger.transaction():
            self._venue.ledger.set_meta(f"payouts_paused:{self._venue.key}", "yes" if paused else "no")

    async def step(self) -> None:
        """Settle what is mined, send again what is not, then sign and send what waits."""
        signed = [row for row in self._venue.ledger.rows(_OPEN, (self._venue.key, _BATCH)) if row["raw"]]
        if signed:
            await self._follow(signed)
        if self.paused:
            return
        due = self._venue.now_ms() - int(self._venue.config.payout_delay_seconds * 1000)
        waiting = [
            row
            for row in self._venue.ledger.rows(_OPEN, (self._venue.key, _BATCH))
            if not row["raw"] and row["applied_ms"] <= due
        ]
        if waiting:
            fees = await self._fees()
            for row in waiting:
                await self._pay(row, fees)

    async def _follow(self, rows: list[sqlite3.Row]) -> None:
        head = await self._chain.height()
        receipts = await self._chain.batch([("eth_getTransactionReceipt", (row["tx_hash"],)) for row in rows])
        for row, receipt in zip(rows, receipts, strict=True):
            if receipt is None:
                await self._broadcast(row["id"], row["raw"], seen=bool(row["broadcast"]))
                continue
            depth = head - int(receipt["blockNumber"], 16) + 1
            if depth >= self._config.payout_confirmations:
                crash_point(CrashPoint.PAYOUT_MINED)
                self._settle(row, succeeded=int(receipt["status"], 16) == 1, depth=depth)

    def _settle(self, row: sqlite3.Row, *, succeeded: bool, depth: int) -> None:
        venue, config, now = self._venue, self._venue.config, self._venue.now_ms()
        with venue.ledger.transaction():
            changed = venue.ledger.write(
                "UPDATE payouts SET settled = 1, broadcast = 1 WHERE withdrawal_id = ? AND settled = 0", (row["id"],)
            )
            if changed != 1:
                raise RuntimeError(f"payout of {row['id']} is settled already")
            if not succeeded:
                venue.desk.close_unpaid(row, WithdrawalStatus.FAILURE, "Transaction reverted on chain", now)
            else:
                venue.ledger.write(
                    "UPDATE withdrawals SET status = ?, completed_ms = ?, confirmations = ? WHERE id = ?",
                    (WithdrawalStatus.COMPLETED.value, now, depth, row["id"]),
                )
                net, fee = config.amount(row["coin"], row["net"]), config.amount(row["coin"], row["fee"])
                out, key = Bucket.WITHDRAWING, row["id"]
                venue.books.post(venue.key, MoveKind.WITHDRAWAL_PAID, net, out, Bucket.OUTSIDE, key)
                venue.books.post(venue.key, MoveKind.WITHDRAWAL_FEE, fee, out, Bucket.FEES, key)
        crash_point(CrashPoint.PAYOUT_SETTLED)

    async def _fees(self) -> Fees:
        block: dict[str, Any] = await self._chain.call("eth_getBlockByNumber", "latest", False)
        priority = 10**9
        return Fees(max_fee=10 * int(block.get("baseFeePerGas") or "0x0", 16) + 2 * priority, priority=priority)

    async def _pay(self, row: sqlite3.Row, fees: Fees) -> None:
        transaction = self._transfer(row)
        try:
            gas = int(await self._chain.call("eth_estimateGas", {"from": self._account.address, **transaction}), 16)
        except ChainRefused as refusal:
            self._warn_once(row["id"], f"the hot wallet cannot pay it yet: {refusal}")
            return
        nonce = await self._next_nonce()
        if self._withdrawn_meanwhile(row["id"]):
            return
        signed = self._account.sign_transaction(
            {
                "to": transaction["to"],
                "value": int(transaction["value"], 16),
                "data": transaction["data"],
                "gas": gas * 6 // 5,
                "maxFeePerGas": fees.max_fee,
                "maxPriorityFeePerGas": fees.priority,
                "nonce": nonce,
                "chainId": self._config.chain_id,
                "type": 2,
            }
        )
        crash_point(CrashPoint.PAYOUT_SIGNED)
        raw, tx_hash = signed.raw_transaction.to_0x_hex(), signed.hash.to_0x_hex()
        with self._venue.ledger.transaction():
            self._venue.ledger.write(
                "INSERT INTO payouts (withdrawal_id, sender, nonce, raw, tx_hash) VALUES (?, ?, ?, ?, ?)",
                (row["id"], self.address, nonce, raw, tx_hash),
            )
            self._venue.ledger.write(
                "UPDATE withdrawals SET status = ? WHERE id = ?", (WithdrawalStatus.PROCESSING.value, row["id"])
            )
        crash_point(CrashPoint.PAYOUT_STORED)
        await self._broadcast(row["id"], raw)

    def _withdrawn_meanwhile(self, key: str) -> bool:
        """Whether the withdrawal was rejected, or payouts were paused, while the node was being asked."""
        row = self._venue.ledger.row("SELECT status FROM withdrawals WHERE id = ?", (key,))
        return row is None or row["status"] not in (2, 4) or self.paused

    def _transfer(self, row: sqlite3.Row) -> dict[str, Any]:
        coin = self._venue.config.coins[row["coin"]]
        network = coin.networks[row["network"]]
        unit = Asset(row["coin"], coin.chain_decimals(row["network"]))
        units = Amount.parse(unit, row["net"]).base_units
        if network.contract is None:
            return {"to": _checksummed(row["address"]), "value": hex(units), "data": "0x"}
        recipient, value = row["address"][2:].lower().rjust(64, "0"), f"{units:064x}"
        return {"to": _checksummed(network.contract), "value": "0x0", "data": f"0xa9059cbb{recipient}{value}"}

    async def _next_nonce(self) -> int:
        on_chain = int(await self._chain.call("eth_getTransactionCount", self._account.address, "latest"), 16)
        last = self._venue.ledger.row("SELECT MAX(nonce) AS nonce FROM payouts WHERE sender = ?", (self.address,))
        booked = -1 if last is None or last["nonce"] is None else int(last["nonce"])
        return max(on_chain, booked + 1)

    async def _broadcast(self, key: str, raw: str, *, seen: bool = False) -> None:
        """Send stored bytes, as often as needed: the same bytes are the same transaction."""
        try:
            await self._chain.call("eth_sendRawTransaction", raw)
        except ChainRefused as refusal:
            if "already" not in str(refusal).lower():
                self._warn_once(key, f"the node does not take its transaction: {refusal}")
                return
        crash_point(CrashPoint.PAYOUT_BROADCAST)
        if not seen:
            with self._venue.ledger.transaction():
                self._venue.ledger.write("UPDATE payouts SET broadcast = 1 WHERE withdrawal_id = ?", (key,))

    async def send_lost_again(self) -> None:
        """After blocks were replaced: send the bytes of settled payouts that are no longer on the chain."""
        rows = self._venue.ledger.rows(
            "SELECT * FROM payouts WHERE sender = ? AND settled = 1 ORDER BY nonce DESC LIMIT ?",
            (self.address, _BATCH),
        )
        receipts = await self._chain.batch([("eth_getTransactionReceipt", (row["tx_hash"],)) for row in rows])
        lost = [row for row, receipt in zip(rows, receipts, strict=True) if receipt is None]
        for row in reversed(lost):
            await self._broadcast(row["withdrawal_id"], row["raw"], seen=True)

    def _warn_once(self, key: str, problem: str) -> None:
        if self._warned.get(key) != problem:
            self._warned[key] = problem
            _log.warning("%s: withdrawal %s: %s", self._venue.key, key, problem)


def _hot_wallet(venue: Venue) -> LocalAccount:
    from eth_account import Account

    path = venue.config.hot_wallet_key_file
    if not path.is_file():
        raise ConfigurationError(f"venues.{venue.key}.hot_wallet_key_file: {path} is not a file")
    private_file(path, f"venues.{venue.key}.hot_wallet_key_file")
    try:
        account: LocalAccount = Account.from_key(path.read_text().strip())
    except ValueError:
        raise ConfigurationError(f"venues.{venue.key}.hot_wallet_key_file: {path} holds no private key") from None
    return account


def _checksummed(address: str) -> str:
    from eth_utils.address import to_checksum_address

    return to_checksum_address(address)
