"""Is everything there that QTG needs? Runs each check, whatever the others say."""

from __future__ import annotations

from collections.abc import Iterator

from qtg_dagster.domain.errors import QtgError
from qtg_dagster.host.channel_checks import notification_channels
from qtg_dagster.host.environment import local_settings, machine_settings
from qtg_dagster.host.findings import Check, Finding
from qtg_dagster.host.machine_checks import dagster_storage, database, disk, migrations, state_folder
from qtg_dagster.host.platform_checks import breakers, callbacks, chains_and_venues, core_workers, executors_and_signers
from qtg_dagster.settings import Settings

#: Need settings only, and settings with a database to talk to. A new check is added here.
CHECKS: tuple[Check, ...] = (state_folder, disk, notification_channels)
DATABASE_CHECKS: tuple[Check, ...] = (
    database,
    migrations,
    dagster_storage,
    core_workers,
    breakers,
    callbacks,
    executors_and_signers,
    chains_and_venues,
)


def examine() -> Iterator[Finding]:
    """All findings, in order. Never raises: what goes wrong in a check is that check's finding."""
    try:
        settings = local_settings()
        venues, chains = len(settings.inventory.venues), len(settings.inventory.chains)
    except QtgError as error:
        yield Finding("settings", False, str(error), "correct that variable")
        return
    yield Finding("settings", True, f"network class {settings.network_class}, {venues} venues, {chains} chains named")
    yield from _run(CHECKS, settings)
    try:
        reachable = machine_settings()
    except QtgError as error:
        yield Finding("database", False, str(error), "`./qtg up` in another terminal")
        return
    yield from _run(DATABASE_CHECKS, reachable)


def _run(checks: tuple[Check, ...], settings: Settings) -> Iterator[Finding]:
    for check in checks:
        try:
            yield from check(settings)
        except Exception as error:  # noqa: BLE001 - a check that breaks is a finding, and the others go on
            name = check.__name__.replace("_", " ")
            yield Finding(name, False, f"{type(error).__name__}: {error}", "see the message; is `qtg up` running?")
