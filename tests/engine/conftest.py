"""An engine on a fresh database, with a scripted provider behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import structlog

from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.parts import Engine
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import AccountEntry, AssetEntry, Inventory
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.retention import Deletions, open_deletions
from qtg_dagster.store.roles import APP, RETENTION
from tests.conftest import as_role
from tests.engine.desk import Desk
from tests.engine.provider import ScriptedExecutor, ScriptedProvider, ScriptedSigner
from tests.engine.retained import Keeper
from tests.recycling import wipe


@pytest.fixture(scope="session", autouse=True)
def _plain_log() -> None:
    """Tracebacks without every frame's variables."""
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.processors.add_log_level, plain])


@pytest.fixture(scope="session")
def shared_database_url(new_database: Callable[..., str], migrated_template: str) -> str:
    return new_database(migrated_template)


@pytest.fixture
def database_url(shared_database_url: str) -> str:
    """URL of a migrated database without a row; the same one for every test of this folder."""
    wipe(shared_database_url)
    return shared_database_url


@pytest.fixture
def provider() -> ScriptedProvider:
    """The remote side: a book of what was executed, and a script of what it answers."""
    return ScriptedProvider()


@pytest.fixture
def signer(provider: ScriptedProvider) -> ScriptedSigner:
    return ScriptedSigner(provider)


@pytest.fixture
def executors(provider: ScriptedProvider) -> ExecutorRegistry:
    registry = ExecutorRegistry()
    registry.register("exec.local.move", ScriptedExecutor(provider))
    registry.register("exec.local.keyed", ScriptedExecutor(provider, key="one-at-a-time"))
    registry.register("exec.local.watch", ScriptedExecutor(provider))
    registry.register("exec.local.signed", ScriptedExecutor(provider, signed=True))
    registry.register("exec.local.patient", ScriptedExecutor(provider, grace=3600.0))
    for lane in ("ccip", "stargate", "cex"):
        registry.register(f"exec.{lane}.send", ScriptedExecutor(provider))
    return registry


@pytest.fixture
async def engine(database_url: str, executors: ExecutorRegistry, signer: ScriptedSigner) -> AsyncIterator[Engine]:
    database = Database(as_role(database_url, APP), pool_size=5)  # with the rights that it has in production
    signers = SignerRegistry()
    signers.register(signer.signer_key, signer)
    settings = Settings(database_url=database_url, drain_poll_seconds=0.2, drain_linger_seconds=0.3)
    treasury = AccountEntry(chain="eip155:1", address="0x" + "11" * 20, signer=signer.signer_key)
    inventory = Inventory.model_construct(
        assets={"USDC": AssetEntry(symbol="USDC", decimals=6)}, accounts={"treasury": treasury}
    )
    yield Engine(PostgresStore(database), settings, inventory, executors, signers)
    await database.close()


@pytest.fixture
async def desk(
    engine: Engine, provider: ScriptedProvider, signer: ScriptedSigner, database_url: str
) -> AsyncIterator[Desk]:
    """The engine with a registered runner."""
    owner = Database(database_url, pool_size=2)
    async with engine.store.runner(RunnerIdentity("dispatch", engine.settings.network_class)) as runner:
        yield Desk(engine, runner, provider, signer, owner)
    await owner.close()


@pytest.fixture
async def keeper(desk: Desk, database_url: str) -> AsyncIterator[Keeper]:
    """Deletion as its role does it."""
    database = open_deletions(as_role(database_url, RETENTION))
    yield Keeper(desk, Deletions(database))
    await database.close()
