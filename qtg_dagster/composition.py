"""The composition root: the one place that knows every part and puts them together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qtg_dagster.callbacks.courier import CallbackCourier
from qtg_dagster.callbacks.resolving import SystemResolver
from qtg_dagster.domain.balances import BalanceFetcher
from qtg_dagster.domain.nonce_chain import NonceChain
from qtg_dagster.domain.venue_record import RecordReader
from qtg_dagster.engine.parts import Engine
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.executors.signers.building import build_signer
from qtg_dagster.inventory import Inventory, RemoteExecutorEntry
from qtg_dagster.lanes import cex, evm
from qtg_dagster.logs import configure_logs
from qtg_dagster.recursion import keep_recursion_limit
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.nonces import NonceLedger
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.signer_journal import SignerJournal
from qtg_dagster.upkeep.alerts.courier import NotificationCourier
from qtg_dagster.upkeep.audit_promoter import AuditCourier
from qtg_dagster.upkeep.couriers import Courier

if TYPE_CHECKING:
    from qtg_dagster.executors.remote.executor import RemoteExecutor


@dataclass(frozen=True, slots=True)
class Platform:
    """All parts of a running QTG, for one event loop."""

    settings: Settings
    engine: Engine
    balance_fetchers: tuple[BalanceFetcher, ...]
    nonces: NonceLedger
    nonce_chain: NonceChain
    records: Mapping[str, RecordReader]  # by venue

    @property
    def database(self) -> Database:
        return self.engine.database

    @property
    def executors(self) -> ExecutorRegistry:
        return self.engine.executors

    @property
    def signers(self) -> SignerRegistry:
        return self.engine.signers


@asynccontextmanager
async def open_platform(
    settings: Settings,
    *,
    pool_size: int | None = None,
    inventory: Inventory | None = None,
    register_more: Callable[[ExecutorRegistry, Inventory], None] | None = None,
) -> AsyncIterator[Platform]:
    """Build everything from settings, and close every connection at the end of the block, however it ends.

    `inventory` stands in for the settings' own; `register_more` adds executors beside the lanes'.
    """
    configure_logs()
    inventory = inventory or settings.inventory
    if inventory.chains or inventory.signers:
        keep_recursion_limit()
    async with AsyncExitStack() as stack:
        database = Database(settings.database_url, pool_size=pool_size or settings.database_pool_size)
        stack.push_async_callback(database.close)
        executors, signers = ExecutorRegistry(), SignerRegistry()
        nonces = NonceLedger(database)
        chains = evm.register(executors, inventory, nonces)
        stack.push_async_callback(chains.close)
        exchanges = cex.register(executors, inventory, arrivals=chains.arrivals, payments=chains.payments)
        stack.push_async_callback(exchanges.close)
        for key, service in inventory.executors.items():
            stack.push_async_callback(_register_remote(executors, key, service).close)
        if register_more is not None:
            register_more(executors, inventory)
        if inventory.signers:
            # A role of its own writes what was signed; nobody who asks for signatures could.
            journals = Database(settings.signer_database_url or settings.database_url, pool_size=2)
            stack.push_async_callback(journals.close)
            for key, entry in inventory.signers.items():
                signer = build_signer(key, entry, inventory, SignerJournal(journals))
                stack.push_async_callback(signer.close)
                signers.register(key, signer)
        engine = Engine(PostgresStore(database), settings, inventory, executors, signers, resolver=SystemResolver())
        yield Platform(
            settings,
            engine,
            (*exchanges.balance_fetchers, *chains.balance_fetchers),
            nonces,
            chains.nonce_chain,
            {record.venue_key: record for record in exchanges.records},
        )


def build_couriers(database: Database, settings: Settings) -> list[Courier]:
    """Who carries what in a delivery drain, on a database of the sender's role."""
    return [
        CallbackCourier(database, settings),
        AuditCourier(database, settings),
        NotificationCourier(database, settings),
    ]


def _register_remote(executors: ExecutorRegistry, key: str, entry: RemoteExecutorEntry) -> RemoteExecutor:
    from qtg_dagster.executors.remote.building import build_remote_executor

    remote = build_remote_executor(key, entry)
    executors.register(key, remote)
    return remote
