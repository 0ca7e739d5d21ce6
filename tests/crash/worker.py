"""A worker process: the real engine over real PostgreSQL, with nothing taken out but waiting."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from qtg_dagster import faults
from qtg_dagster.callbacks.courier import CallbackCourier
from qtg_dagster.composition import Platform, open_platform
from qtg_dagster.domain import callbacks, observation
from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine import drain as drains
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.engine.expiry import expire_pending_requests
from qtg_dagster.engine.observe import observe_active_nodes
from qtg_dagster.engine.recover import recover_unknown_nodes
from qtg_dagster.engine.requests import approve_movement
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import AssetEntry, Inventory
from qtg_dagster.lanes.cex import negative_proof
from qtg_dagster.settings import Settings
from qtg_dagster.store.audit_chain import promote_entries
from qtg_dagster.store.runners import Runner
from qtg_dagster.upkeep.cycles import PassResult, serve_cycle
from tests.crash.provider.executor import KEY, SIGNER_KEY, BankExecutor, BankSigner
from tests.crash.spec import Role, WorkerSpec

log = structlog.get_logger("qtg.crash")

_SOON = 0.05
#: Audit entries a commit: a case has more of them, so that a promoter dies with some before and some behind it.
_FEW_ENTRIES = 2
#: An unanswered broadcast is looked for this soon; sending the same bytes again is harmless.
_EVM_GRACE = 0.5


def inventory_of(path: str) -> Inventory:
    """The sandbox's inventory with short waits; without one, an asset for the bank."""
    if not path:
        return Inventory(assets={"USDC": AssetEntry(symbol="USDC", decimals=6)})
    inventory = Inventory.load(Path(path))
    hasty = {key: venue.model_copy(update={"settle_seconds": 1.0}) for key, venue in inventory.venues.items()}
    return inventory.model_copy(update={"venues": hasty})


def settings_of(database_url: str, concurrency: int = 16) -> Settings:
    """Ordinary settings with a quick pulse."""
    return Settings(
        database_url=database_url,
        network_class="sandbox",
        callback_allowed_hosts="127.0.0.1",
        callback_max_attempts=100,
        callback_timeout_seconds=2,
        approval_ttl_seconds=86400,
        node_recovery_interval_seconds=1,
        drain_poll_seconds=0.1,
        drain_linger_seconds=3600,
        drain_concurrency=concurrency,
        database_pool_size=5,
    )


@asynccontextmanager
async def open_parts(spec: WorkerSpec) -> AsyncIterator[Platform]:
    """The composition root's platform with the bank beside the lanes."""

    def register(executors: ExecutorRegistry, _: Inventory) -> None:
        executors.register(KEY, BankExecutor(Path(spec.bank_socket), SystemClock()))
        if "exec.evm.transfer" in executors:
            executors.resolve("exec.evm.transfer").submit_grace_seconds = _EVM_GRACE  # type: ignore[attr-defined]

    settings = settings_of(spec.database_url, spec.concurrency)
    if spec.callbacks_file:
        settings = settings.model_copy(update={"inventory_file": Path(spec.callbacks_file)})
    inventory = inventory_of(spec.inventory_file)
    async with open_platform(settings, inventory=inventory, register_more=register) as platform:
        platform.signers.register(SIGNER_KEY, BankSigner())
        yield platform


def main(spec: WorkerSpec) -> None:
    """Work until killed (or until the role has nothing left to do)."""
    _hurry()
    if spec.clock_offset_seconds:
        _skew(spec.clock_offset_seconds)
    faults.arm(spec.fault, spec.mark)
    asyncio.run(_run(spec))


def _hurry() -> None:
    """Looks come often: what is tested is what happens at them, not how long they are apart."""
    for action_type in observation.DEFAULT_OBSERVE_INTERVALS:
        observation.DEFAULT_OBSERVE_INTERVALS[action_type] = 0.15
    observation.OTHER_OBSERVE_INTERVAL = 0.15
    drains.GIVE_BACK_SECONDS = 0.1
    negative_proof.EARLY_LOOK_SECONDS = 1.0
    callbacks.backoff_seconds = lambda attempts: 0.1


def _skew(seconds: float) -> None:
    """This process's clock is wrong, for every part that asks for the time."""
    off = timedelta(seconds=seconds)
    SystemClock.now = lambda self: datetime.now(UTC) + off  # type: ignore[method-assign]


async def _run(spec: WorkerSpec) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _tell)
    async with open_parts(spec) as platform:
        log.info("worker begins", role=spec.role, pid=os.getpid(), fault=spec.fault)
        await _ROLES[Role(spec.role)](platform)


def _tell() -> None:
    """Where everything stands, for the log of a case that does not end."""
    for task in asyncio.all_tasks():
        task.print_stack(limit=8)


async def _drains(platform: Platform) -> None:
    await asyncio.gather(*(_keep(platform, kind) for kind in DrainKind))


async def _keep(platform: Platform, kind: DrainKind) -> None:
    """Start the drain again when it ends, as its sensor does."""
    while True:
        try:
            report = await Drain(platform.engine, kind).run()
            log.info("drain ended", kind=kind, because=report.ended_because)
        except Exception:
            log.exception("drain died", kind=kind)
        await asyncio.sleep(_SOON)


_PASSES: dict[DrainKind, Callable[..., Awaitable[int]]] = {
    DrainKind.DISPATCH: dispatch_ready_nodes,
    DrainKind.OBSERVE: observe_active_nodes,
    DrainKind.RECOVER: recover_unknown_nodes,
}


async def _passes(platform: Platform) -> None:
    await asyncio.gather(*(_pass_on_and_on(platform, kind) for kind in DrainKind))


async def _pass_on_and_on(platform: Platform, kind: DrainKind) -> None:
    engine = platform.engine
    while True:
        try:
            async with Runner(engine.database, RunnerIdentity(kind, engine.settings.network_class)) as runner:
                while True:
                    await runner.check_alive()
                    await _PASSES[kind](engine, runner, 16)
                    await asyncio.sleep(_SOON)
        except Exception:
            log.exception("pass died", kind=kind)
        await asyncio.sleep(_SOON)


async def _approve(platform: Platform) -> None:
    from sqlalchemy import text

    waiting = text("SELECT id::text FROM qtg.movement_requests WHERE request_state = 'PENDING_APPROVAL'")
    while True:
        try:
            async with platform.database.transaction() as transaction:
                found = list((await transaction.execute(waiting)).scalars())
            for request_id in found:
                await approve_movement(platform.engine, request_id, actor="grace")
        except Exception:
            log.exception("approval failed")
        await asyncio.sleep(_SOON)


async def _expire(platform: Platform) -> None:
    while True:
        try:
            await expire_pending_requests(platform.engine)
        except Exception:
            log.exception("expiry failed")
        await asyncio.sleep(_SOON)


async def _cycle(platform: Platform) -> None:
    async def work() -> PassResult:
        return PassResult(1)

    while True:
        for window in range(3):
            try:
                await serve_cycle(platform.engine, "crash_worker", f"window-{window}", work)
            except Exception:
                log.exception("cycle failed")
        await asyncio.sleep(_SOON)


async def _promote(platform: Platform) -> None:
    while True:
        try:
            await promote_entries(platform.database, platform.settings.network_class, _FEW_ENTRIES)
        except Exception:
            log.exception("promotion failed")
        await asyncio.sleep(_SOON)


async def _deliver(platform: Platform) -> None:
    settings = platform.settings
    while True:
        try:
            async with Runner(platform.database, RunnerIdentity("deliver", settings.network_class)) as runner:
                courier, more = CallbackCourier(platform.database, settings), asyncio.Event()
                while True:
                    await runner.check_alive()
                    more.clear()
                    if not await courier.work(runner, more):
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(more.wait(), _SOON)
        except Exception:
            log.exception("delivery failed")
        await asyncio.sleep(_SOON)


async def _reap(platform: Platform) -> None:
    while True:
        try:
            await platform.nonces.reap(max_age_seconds=0)
        except Exception:
            log.exception("reap failed")
        await asyncio.sleep(_SOON)


_ROLES: dict[Role, Callable[[Platform], Awaitable[None]]] = {
    Role.DRAINS: _drains,
    Role.PASSES: _passes,
    Role.APPROVE: _approve,
    Role.EXPIRE: _expire,
    Role.CYCLE: _cycle,
    Role.PROMOTE: _promote,
    Role.DELIVER: _deliver,
    Role.REAP: _reap,
}
