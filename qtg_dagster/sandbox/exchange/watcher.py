"""The deposit watcher: scans blocks from a cursor kept in the ledger, credits each transfer exactly once."""

from __future__ import annotations

import sqlite3
from typing import Any

from qtg_dagster.sandbox.exchange.books import Bucket, MoveKind
from qtg_dagster.sandbox.exchange.chain import TRANSFER_TOPIC, ChainClient
from qtg_dagster.sandbox.exchange.config import ChainConfig
from qtg_dagster.sandbox.exchange.crash import CrashPoint, crash_point
from qtg_dagster.sandbox.exchange.deposits import DepositRoute, DepositStatus, Sighting, new_deposit
from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.venue import Venue

_SPAN = 50
_REORG_DEPTH = 64


class DepositWatcher:
    """Watches one chain for all venues. Native coins count when a transaction sends them, not when a contract does."""

    def __init__(self, venues: dict[str, Venue], ledger: Ledger, chain: ChainClient, config: ChainConfig) -> None:
        self._venues = venues
        self._ledger = ledger
        self._chain = chain
        self._config = config
        self._tokens: dict[tuple[str, str], DepositRoute] = {}
        self._native: dict[str, DepositRoute] = {}
        for key, venue in venues.items():
            for coin, listed in venue.config.coins.items():
                for name, network in listed.networks.items():
                    route = DepositRoute(key, coin, name)
                    if network.contract is None:
                        self._native[network.deposit_address] = route
                    else:
                        self._tokens[network.contract, network.deposit_address] = route

    async def step(self) -> bool:
        """Scan up to the tip, then credit what has enough confirmations; returns whether blocks were replaced."""
        head, last = await self._chain.height_and_hash(max(0, self._cursor() - 1))
        replaced = self._rewind_after_reorganisation(head, last)
        while (start := self._cursor()) <= head:
            end = min(start + _SPAN - 1, head)
            tip = await self._chain.block_hash(end)
            sightings = await self._token_transfers(start, end) + await self._native_transfers(start, end)
            if tip is None or await self._chain.block_hash(end) != tip:
                return replaced
            self._record(sightings, end, tip)
            crash_point(CrashPoint.DEPOSIT_SEEN)
        await self._confirm(head)
        return replaced

    def _cursor(self) -> int:
        return int(self._ledger.meta("scan_next") or self._config.start_block)

    def _rewind_after_reorganisation(self, head: int, last: str | None) -> bool:
        """Whether the last block that was scanned is gone from the chain; what hangs on it is scanned again."""
        start, tip = self._cursor(), self._ledger.meta("scan_tip")
        if tip is None or last == tip:
            return False
        back = max(self._config.start_block, min(start, head + 1) - _REORG_DEPTH)
        with self._ledger.transaction():
            self._ledger.write("DELETE FROM deposits WHERE status = 0 AND block_number >= ?", (back,))
            self._ledger.set_meta("scan_next", str(back))
            self._ledger.write("DELETE FROM meta WHERE key = 'scan_tip'")
        return True

    def _record(self, sightings: list[Sighting], end: int, tip: str) -> None:
        with self._ledger.transaction():
            for sighting in sightings:
                venue = self._venues[sighting.route.venue]
                key = venue.dialect.deposit_id()
                self._ledger.write(*new_deposit(key, sighting, venue.config, venue.now_ms()))
            self._ledger.set_meta("scan_next", str(end + 1))
            self._ledger.set_meta("scan_tip", tip)

    async def _token_transfers(self, start: int, end: int) -> list[Sighting]:
        if not self._tokens:
            return []
        wanted = {
            "fromBlock": hex(start),
            "toBlock": hex(end),
            "address": sorted({contract for contract, _ in self._tokens}),
            "topics": [TRANSFER_TOPIC, None, sorted({_topic(address) for _, address in self._tokens})],
        }
        logs: list[dict[str, Any]] = await self._chain.call("eth_getLogs", wanted)
        hashes = list(dict.fromkeys(log["transactionHash"] for log in logs))
        receipts = await self._chain.batch([("eth_getTransactionReceipt", (item,)) for item in hashes])
        first = {item["transactionHash"]: int(item["logs"][0]["logIndex"], 16) for item in receipts if item is not None}
        return [
            Sighting(
                route=route,
                source="0x" + log["topics"][1][-40:],
                address=address,
                units=int(log["data"], 16),
                tx_hash=log["transactionHash"],
                position=int(log["logIndex"], 16) - first[log["transactionHash"]],
                block_number=int(log["blockNumber"], 16),
                block_hash=log["blockHash"],
            )
            for log in logs
            if len(log["topics"]) == 3 and log["transactionHash"] in first
            for address in ["0x" + log["topics"][2][-40:].lower()]
            if (route := self._tokens.get((log["address"].lower(), address))) is not None and int(log["data"], 16)
        ]

    async def _native_transfers(self, start: int, end: int) -> list[Sighting]:
        if not self._native:
            return []
        blocks = await self._chain.batch(
            [("eth_getBlockByNumber", (hex(number), True)) for number in range(start, end + 1)]
        )
        ours = [
            item
            for block in blocks
            if block is not None
            for item in block["transactions"]
            if (item["to"] or "").lower() in self._native and int(item["value"], 16)
        ]
        receipts = await self._chain.batch([("eth_getTransactionReceipt", (item["hash"],)) for item in ours])
        return [
            Sighting(
                route=self._native[item["to"].lower()],
                source=item["from"].lower(),
                address=item["to"].lower(),
                units=int(item["value"], 16),
                tx_hash=item["hash"],
                position=-1,
                block_number=int(receipt["blockNumber"], 16),
                block_hash=receipt["blockHash"],
            )
            for item, receipt in zip(ours, receipts, strict=True)
            if receipt is not None and int(receipt["status"], 16) == 1
        ]

    async def _confirm(self, head: int) -> None:
        rows = self._ledger.rows("SELECT * FROM deposits WHERE status IN (0, 6) ORDER BY seq")
        receipts = await self._chain.batch([("eth_getTransactionReceipt", (row["tx_hash"],)) for row in rows])
        for row, receipt in zip(rows, receipts, strict=True):
            if receipt is None or receipt["blockHash"] != row["block_hash"]:
                continue
            self._confirm_one(row, head - row["block_number"] + 1)

    def _confirm_one(self, row: sqlite3.Row, depth: int) -> None:
        venue = self._venues[row["venue"]]
        status = self._next_status(venue, row, depth)
        if status == row["status"] and depth == row["confirmations"]:
            return
        amount = venue.config.amount(row["coin"], row["amount"])
        reference = f"{row['tx_hash']}:{row['log_position']}"
        with self._ledger.transaction():
            if row["status"] == DepositStatus.PENDING and status is not DepositStatus.PENDING:
                bucket = Bucket.FREE if status is DepositStatus.SUCCESS else Bucket.FROZEN
                venue.books.post(venue.key, MoveKind.DEPOSIT_CREDIT, amount, Bucket.OUTSIDE, bucket, reference)
            elif row["status"] == DepositStatus.CREDITED_LOCKED and status is DepositStatus.SUCCESS:
                venue.books.post(venue.key, MoveKind.DEPOSIT_UNLOCK, amount, Bucket.FROZEN, Bucket.FREE, reference)
            self._ledger.write(
                "UPDATE deposits SET status = ?, confirmations = ?, completed_ms = ? WHERE seq = ?",
                (status.value, depth, venue.now_ms() if status is DepositStatus.SUCCESS else None, row["seq"]),
            )
        if status != row["status"]:
            crash_point(CrashPoint.DEPOSIT_CREDITED)

    @staticmethod
    def _next_status(venue: Venue, row: sqlite3.Row, depth: int) -> DepositStatus:
        network = venue.config.coins[row["coin"]].networks[row["network"]]
        closed = f"{row['coin']}/{row['network']}" in venue.conditions.deposit_disabled
        if closed or (row["status"] == DepositStatus.PENDING and depth < network.confirmations):
            return DepositStatus(row["status"])
        if depth >= max(network.confirmations, network.unlock_confirmations):
            return DepositStatus.SUCCESS
        return DepositStatus.CREDITED_LOCKED


def _topic(address: str) -> str:
    return "0x" + address[2:].rjust(64, "0")
