"""What was last seen of executors, signers and balances, and what can hold a movement's nodes. Reads only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy import text

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.contract import HealthState
from qtg_dagster.domain.review import Balance, Holding, LastHealth
from qtg_dagster.store.database import Database, Transaction

_HEALTH = text("""
    SELECT key, health_state, coalesce(health_detail, '') AS detail, checked_at
    FROM (SELECT network_class, executor_key AS key, health_state, health_detail, checked_at FROM qtg.executor_registry
          UNION ALL
          SELECT network_class, signer_key, health_state, health_detail, checked_at FROM qtg.signer_registry) AS known
    WHERE network_class = :network_class AND key = ANY (CAST(:keys AS text[]))
""")
_FREE = text("""
    SELECT DISTINCT ON (venue_key, account, asset) venue_key, account, asset, free, request_ended_at AS read_at,
           extract(epoch FROM now() - request_ended_at)::float AS age_seconds
    FROM qtg.balance_snapshots
    JOIN unnest(CAST(:places AS text[]), CAST(:wallets AS text[])) AS asked (place, paying_wallet)
      ON venue_key = place AND wallet = coalesce(paying_wallet, wallet)
    WHERE network_class = :network_class
      AND recorded_at > now() - interval '2 days'
    ORDER BY venue_key, account, asset, recorded_at DESC
""")
_NODES = text("""
    SELECT node_key, id::text AS node_id, scopes
    FROM qtg.movement_request_nodes WHERE request_id = CAST(:request_id AS uuid)
""")


@dataclass(frozen=True, slots=True)
class AgedBalance:
    """A balance and its age by the database's clock."""

    balance: Balance
    age_seconds: float


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node's id, and what a breaker must stand on to hold it."""

    node_id: str
    scopes: tuple[str, ...]


@asynccontextmanager
async def reading(database: Database) -> AsyncIterator[Transaction]:
    """A transaction in which the database itself refuses to change anything."""
    async with database.transaction() as transaction:
        await transaction.execute(text("SET TRANSACTION READ ONLY"))
        yield transaction


async def read_last_health(
    transaction: Transaction, network_class: str, keys: Collection[str]
) -> dict[str, LastHealth]:
    """Key -> the last check of each executor and signer named; UNKNOWN for one that was never checked."""
    rows = await transaction.execute(_HEALTH, {"network_class": network_class, "keys": sorted(keys)})
    found = {row.key: LastHealth(row.key, HealthState(row.health_state), row.detail, row.checked_at) for row in rows}
    return {key: found.get(key) or LastHealth(key, HealthState.UNKNOWN, "never checked", None) for key in keys}


async def read_free_balances(
    transaction: Transaction, network_class: str, paying_wallets: Mapping[str, str | None]
) -> dict[Holding, AgedBalance]:
    """The newest snapshot, of the last two days, of what we hold in these places, each in the wallet named with it.

    That another wallet of the account could not be read takes nothing from it.
    """
    asked = {"places": list(paying_wallets), "wallets": list(paying_wallets.values())}
    rows = await transaction.execute(_FREE, {"network_class": network_class, **asked})
    return {
        Holding(row.venue_key, row.account, row.asset): AgedBalance(
            Balance(plain_decimal(row.free), row.read_at, live=False), row.age_seconds
        )
        for row in rows
    }


async def read_node_rows(transaction: Transaction, request_id: str) -> dict[str, NodeRow]:
    """Node key -> the row of each node of a movement."""
    rows = await transaction.execute(_NODES, {"request_id": request_id})
    return {row.node_key: NodeRow(row.node_id, tuple(row.scopes)) for row in rows}
