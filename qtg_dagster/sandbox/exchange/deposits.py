"""Deposits: found in blocks by transfer, credited once after enough confirmations, safe against reorganisations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.sandbox.exchange.config import VenueConfig


class DepositStatus(IntEnum):
    """The ledger's numbers, which are Binance's; withdrawals have others, and each wire its own words."""

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


def new_deposit(key: str, sighting: Sighting, config: VenueConfig, now_ms: int) -> tuple[str, tuple[object, ...]]:
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
        key,
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
