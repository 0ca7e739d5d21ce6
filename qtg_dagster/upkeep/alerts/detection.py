"""Looking for what is the matter, and writing down which alerts are open. Anybody may do it, any number at once."""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog

from qtg_dagster.domain.alerts import AlertKind, AlertPolicy, Condition, Severity
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.settings import Settings
from qtg_dagster.store.alerts import (
    StoredAlert,
    insert_alert,
    lock_alerts,
    read_clock,
    standing_alerts,
    write_observation,
)
from qtg_dagster.store.database import Database, Transaction
from qtg_dagster.upkeep.alerts.looking import Look, Source
from qtg_dagster.upkeep.alerts.planning import Seen, observations, openings
from qtg_dagster.upkeep.alerts.sources import SOURCES

#: Database and network class -> when this process last looked; sensors of one process need not all look.
_looked: dict[tuple[str, str], float] = {}
log = structlog.get_logger("qtg.alerts")

#: What was seen longer ago is not written down: somebody else has looked since.
STALE_SECONDS = 30.0


def alert_policy(settings: Settings) -> AlertPolicy:
    """The settings' rule for when a word is due."""
    return AlertPolicy(settings.notify_settle_seconds, settings.notify_remind_seconds, settings.notify_most_per_hour)


async def detect_alerts(database: Database, settings: Settings, sources: Sequence[Source] = SOURCES) -> int:
    """Look, and write down what changed: alerts that open, change or end. How many that were. Tells nobody."""
    seen = await look_for_alerts(database, settings, sources)
    async with database.transaction() as tx:
        changed = await write_down(tx, settings, seen)
    _looked[settings.database_url, settings.network_class] = time.monotonic()
    return changed


def seconds_since_look(settings: Settings) -> float:
    """How long ago somebody in this process looked and wrote down what was found."""
    return time.monotonic() - _looked.get((settings.database_url, settings.network_class), float("-inf"))


async def look_for_alerts(database: Database, settings: Settings, sources: Sequence[Source] = SOURCES) -> Seen:
    """Everything that is the matter now. A source that fails blinds us for its own kinds, which is an alert too."""
    async with database.transaction() as tx:
        at = await read_clock(tx)
        standing = await standing_alerts(tx, settings.network_class)
    known = {alert.name: alert.view.details for alert in standing if alert.episode.resolved_at is None}
    look = Look(database, settings, known)
    conditions: list[Condition] = []
    kinds = {AlertKind.BLIND}
    failed: dict[str, str] = {}
    for source in sources:
        try:
            conditions += await source.find(look)
            kinds |= source.kinds
        except Exception as error:  # the others are looked for all the same, and people hear of it
            log.exception("source of alerts failed", source=source.name)
            failed[source.name] = redact_text(f"{type(error).__name__}: {error}".partition("\n")[0])
            conditions.append(_blind(source, failed[source.name]))
    return Seen(conditions, frozenset(kind.value for kind in kinds), at, failed)


async def write_down(transaction: Transaction, settings: Settings, seen: Seen) -> int:
    """Write what was seen, under the lock of alerts; how many alerts it changed."""
    now = await lock_alerts(transaction, settings.network_class)
    if (now - seen.at).total_seconds() > STALE_SECONDS:
        log.warning("a look at alerts took too long and is not written down", seconds=(now - seen.at).total_seconds())
        return 0
    standing: Sequence[StoredAlert] = await standing_alerts(transaction, settings.network_class)
    opened = openings(seen, standing)
    for condition in opened:
        await insert_alert(transaction, settings.network_class, condition)
    changed = observations(seen, standing, now, alert_policy(settings))
    for one in changed:
        await write_observation(transaction, one.alert, one.episode, one.condition)
    return len(opened) + len(changed)


def _blind(source: Source, error: str) -> Condition:
    kinds = ", ".join(sorted(source.kinds))
    return Condition(
        AlertKind.BLIND,
        source.name,
        Severity.WARNING,
        f"nobody sees at the moment whether something is the matter with: {source.name}",
        {"kinds": kinds, "error": error},
        (),
        ("qtg doctor",),
        "alerts",
    )
