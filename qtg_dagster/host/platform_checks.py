"""Doctor's checks of what the platform talks to: every executor, signer, venue and chain of the inventory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from qtg_dagster.domain.balances import BalanceFetcher
from qtg_dagster.domain.contract import HealthReport, HealthState
from qtg_dagster.host.findings import Finding
from qtg_dagster.settings import Settings
from qtg_dagster.treasury.balances import missing_wallets

_PATIENCE_SECONDS = 20


def executors_and_signers(settings: Settings) -> Iterator[Finding]:
    """Each says by itself whether it can work."""
    yield from asyncio.run(_ask_health(settings))


def chains_and_venues(settings: Settings) -> Iterator[Finding]:
    """The balances of each can be read: endpoint, credentials and permissions in one question."""
    yield from asyncio.run(_read_balances(settings))


def core_workers(settings: Settings) -> Iterator[Finding]:
    """The core group is not halted, and no worker is late, failing or dead."""
    yield from asyncio.run(_survey(settings))


def breakers(settings: Settings) -> Iterator[Finding]:
    """What is held back at the moment; somebody wants it so, and nothing is broken."""
    yield asyncio.run(_list_breakers(settings))


def callbacks(settings: Settings) -> Iterator[Finding]:
    """No callback was given up, and there is a secret to sign those with that wait."""
    yield asyncio.run(_look_at_callbacks(settings))


async def _look_at_callbacks(settings: Settings) -> Finding:
    from qtg_dagster.callbacks.signing import SigningKeys
    from qtg_dagster.domain.errors import ConfigurationError
    from qtg_dagster.store.callback_desk import count_pending, given_up
    from qtg_dagster.store.database import Database

    database = Database(settings.database_url, pool_size=1)
    try:
        async with database.transaction() as transaction:
            lost = await given_up(transaction, settings.network_class)
            pending = await count_pending(transaction, settings.network_class)
    finally:
        await database.close()
    if pending:
        try:
            SigningKeys(settings.inventory)
        except ConfigurationError as error:
            return Finding("callbacks", False, f"{pending} wait; {error}", "name `callbacks.secret` in the inventory")
    told = "; ".join(f"{one.receiver}: {one.told()}" for one in lost)
    remedy = "mend the receiver, then `./qtg callback redrive --receiver HOST --by NAME --reason TEXT`"
    return Finding("callbacks", not lost, f"given up: {told}" if told else f"none given up, {pending} wait", remedy)


async def _list_breakers(settings: Settings) -> Finding:
    from qtg_dagster.store.breakers import standing_breakers
    from qtg_dagster.store.database import Database

    database = Database(settings.database_url, pool_size=1)
    try:
        async with database.transaction() as transaction:
            standing = await standing_breakers(transaction, settings.network_class)
    finally:
        await database.close()
    return Finding("breakers", True, "; ".join(f"{one.scope} {one.told()}" for one in standing) or "none is open")


async def _survey(settings: Settings) -> list[Finding]:
    from qtg_dagster.domain.core_group import CoreStanding
    from qtg_dagster.store.database import Database
    from qtg_dagster.upkeep.workers import survey_workers

    database = Database(settings.database_url, pool_size=2)
    try:
        survey = await survey_workers(database, settings, asked_by="qtg doctor")
    finally:
        await database.close()
    halted = survey.group.standing is CoreStanding.HALTED
    remedy = "`./qtg core resume --by NAME --reason TEXT` once you know why"
    ill = [f"{one.spec.name}: {one.told()}" for one in survey.alarms()]
    return [
        Finding("core group", not halted, survey.group.explain(), remedy),
        Finding("workers", not ill, "; ".join(ill) or "none late, failing or dead", "is `./qtg up` running?"),
    ]


async def _ask_health(settings: Settings) -> list[Finding]:
    from qtg_dagster.composition import open_platform

    async with open_platform(settings, pool_size=2) as platform:
        asked = [ask_health(key, executor.health) for key, executor in platform.executors.items()]
        asked += [ask_health(key, signer.health) for key, signer in platform.signers.items()]
        if not asked:
            return [Finding("executors", False, "none is registered", "set MG_INVENTORY_FILE, or start the sandbox")]
        return list(await asyncio.gather(*asked))


async def ask_health(key: str, ask: Callable[[], Awaitable[HealthReport | None]]) -> Finding:
    """What an executor or signer says of itself."""
    try:
        report = await asyncio.wait_for(ask(), _PATIENCE_SECONDS)
    except Exception as error:  # noqa: BLE001 - what it raises is the finding
        return Finding(key, False, _words(error), "see the message")
    if report is None:
        return Finding(key, True, "nothing to reach")
    detail = f"{report.health_state}{f', {report.detail}' if report.detail else ''}"
    ok = report.health_state in (HealthState.HEALTHY, HealthState.DEGRADED)
    return Finding(key, ok, detail, "is its provider up, and are its credentials right?")


async def _read_balances(settings: Settings) -> list[Finding]:
    from qtg_dagster.composition import open_platform

    async with open_platform(settings, pool_size=2) as platform:
        return list(await asyncio.gather(*(read_wallets(fetcher) for fetcher in platform.balance_fetchers)))


async def read_wallets(fetcher: BalanceFetcher) -> Finding:
    """Whether a venue's or chain's balances can be read."""
    try:
        readings = await asyncio.wait_for(fetcher.fetch(), _PATIENCE_SECONDS)
    except Exception as error:  # noqa: BLE001 - what it raises is the finding
        return Finding(fetcher.venue_key, False, _words(error), "is it up, are its keys right?")
    missing = missing_wallets(readings)
    ok = any(reading.wallet == fetcher.paying_wallet for reading in readings)  # an account need not have the others
    detail = f"{len(readings)} balances read{f', without {missing}' if missing else ''}"
    return Finding(fetcher.venue_key, ok, detail, "the wallet that pays was not read: see the message")


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {_PATIENCE_SECONDS} s"
    return f"{type(error).__name__}: {error}"
