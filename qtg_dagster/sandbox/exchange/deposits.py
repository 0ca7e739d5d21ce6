"""Deposits: found in blocks by transfer, credited once after enough confirmations, safe against reorganisations."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from uuid import uuid4

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.wire import fixed


class DepositStatus(IntEnum):
    """Binance's deposit numbers; withdrawals have another table."""

    PENDING = 0
    SUCCESS = 1
    REJECTED = 2
    CREDITED_LOCKED = 6
    WRONG = 7
    AWAITING_USER = 8


@dataclass(frozen=True, slots=True)
class DepositRoute:
    """Where a transfer to an address belongs."""

    venue: str
    coin: str
    network: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """A transfer to one of our addresses. `position` counts the logs of its own transaction (-1 = native), so it
    stays the same when the transaction moves to another block."""

    route: DepositRoute
    source: str
    address: str
    units: int
    tx_hash: str
    position: int
    block_number: int
    block_hash: str


def new_deposit(sighting: Sighting, config: VenueConfig, now_ms: int) -> tuple[str, tuple[object, ...]]:
    """The statement that records a sighting; recording the same transfer again changes nothing."""
    coin = config.coins[sighting.route.coin]
    unit = Asset(sighting.route.coin, coin.chain_decimals(sighting.route.network))
    statement = (
        "INSERT INTO deposits (id, venue, coin, network, address, source_address, amount, status, tx_hash,"
        " log_position, block_number, block_hash, inserted_ms) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)"
        " ON CONFLICT (tx_hash, log_position) DO UPDATE SET"
        " block_number = excluded.block_number, block_hash = excluded.block_hash WHERE status IN (0, 6)"
    )
    values = (
        str(uuid4().int % 10**18),
        sighting.route.venue,
        sighting.route.coin,
        sighting.route.network,
        sighting.address,
        sighting.source,
        Amount(unit, sighting.units).to_text(),
        sighting.tx_hash,
        sighting.position,
        sighting.block_number,
        sighting.block_hash,
        now_ms,
    )
    return statement, values


def deposit_row(row: sqlite3.Row, config: VenueConfig) -> dict[str, Any]:
    """A deposit as Binance's history shows it; times in milliseconds, unlike withdrawals."""
    network = config.coins[row["coin"]].networks[row["network"]]
    shown: dict[str, Any] = {
        "id": row["id"],
        "amount": fixed(row["amount"]),
        "coin": row["coin"],
        "network": row["network"],
        "status": row["status"],
        "address": row["address"],
        "addressTag": "",
        "txId": row["tx_hash"],
        "insertTime": row["inserted_ms"],
        "transferType": 0,
        "confirmTimes": f"{min(row['confirmations'], network.confirmations)}/{network.confirmations}",
        "unlockConfirm": network.unlock_confirmations,
        "walletType": 0,
        "sourceAddress": row["source_address"],
    }
    if row["completed_ms"] is not None:
        shown["completeTime"] = row["completed_ms"]
    return shown
