"""What people do with alerts: acknowledge one, end one that was raised, try a channel."""

from __future__ import annotations

from datetime import datetime

from qtg_dagster.domain.alert_messages import AlertView, trial_message
from qtg_dagster.domain.alerts import AlertKind
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.settings import Settings
from qtg_dagster.store.alerts import read_alerts, resolve_alert, write_acknowledgement
from qtg_dagster.store.audit import audit
from qtg_dagster.store.database import Database, Transaction
from qtg_dagster.upkeep.alerts.channels import Answer, open_channel

LEAST_SECONDS = 60.0
MOST_SECONDS = 30 * 86400.0


async def find_alert(transaction: Transaction, network_class: str, alert_id: int) -> AlertView:
    """One alert, over or not; raises `NotFound`."""
    found = await read_alerts(transaction, network_class, alert_id=alert_id, resolved=True)
    if not found:
        raise NotFound(f"there is no alert {alert_id} in network class {network_class}; see `qtg alert list --all`")
    return found[0]


async def acknowledge_alert(
    database: Database, settings: Settings, alert_id: int, *, actor: str, reason: str, seconds: float
) -> datetime:
    """Say who knows of an open alert: nobody is reminded of it until the time returned, unless it gets worse.

    Raises `NotFound`, `Conflict` for one that is over, `InvalidInput` for an empty name or reason or an odd time.
    """
    _named(actor, reason)
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise InvalidInput("seconds", f"{seconds:.0f} is out of bounds", "Use a minute to 30 days.")
    network_class = settings.network_class
    async with database.transaction() as tx:
        alert = await find_alert(tx, network_class, alert_id)
        until = await write_acknowledgement(tx, network_class, alert_id, actor=actor, reason=reason, seconds=seconds)
        if until is None:
            raise Conflict(f"alert {alert_id} is over since {alert.resolved_at:%Y-%m-%d %H:%M:%S} UTC")
        details = {"reason": reason, "until": until.isoformat(), "severity": alert.severity.value, "title": alert.title}
        await _audit(tx, network_class, actor, "acknowledge_alert", str(alert_id), details)
    return until


async def resolve_raised(database: Database, settings: Settings, alert_id: int, *, actor: str, reason: str) -> None:
    """End an alert that a part of QTG has raised and does not look for all the time, such as drift.

    Raises `NotFound`; `Conflict` for one that is over, or that ends by itself with its condition.
    """
    _named(actor, reason)
    network_class = settings.network_class
    async with database.transaction() as tx:
        alert = await find_alert(tx, network_class, alert_id)
        if not alert.raised:
            raise Conflict(
                f"alert {alert_id} ends with its condition, not by hand; acknowledge it, and mend what it is about"
            )
        kind = AlertKind(alert.kind)
        if alert.resolved_at or not await resolve_alert(tx, network_class, kind, alert.dedupe_key, by=actor):
            raise Conflict(f"alert {alert_id} is over already")
        await _audit(tx, network_class, actor, "resolve_alert", str(alert_id), {"reason": reason, "title": alert.title})


async def try_channel(database: Database, settings: Settings, name: str, *, actor: str) -> Answer:
    """Send a real message to a channel, whether or not notifications are switched on, and say what it answered.

    Raises `NotFound` with the names there are, `ConfigurationError` when apprise cannot use its URL.
    """
    channels = settings.inventory.notifications
    if name not in channels:
        raise NotFound(f"there is no channel {name!r}; the inventory has {', '.join(channels) or 'none'}")
    if not actor.strip():
        raise InvalidInput("actor", "is empty", "Say who tries it: it goes into the audit trail.")
    channel = open_channel(name, channels[name])
    async with database.transaction() as tx:
        await _audit(tx, settings.network_class, actor, "try_channel", name, {}, "notification_channel")
    message = trial_message(name, settings.network_class, actor)
    return await channel.send(message, settings.notify_send_timeout_seconds)


def _named(actor: str, reason: str) -> None:
    for field, value in (("actor", actor), ("reason", reason)):
        if not value.strip():
            raise InvalidInput(field, "is empty", "Say who and why: it goes into the audit trail.")


async def _audit(
    transaction: Transaction,
    network_class: str,
    actor: str,
    action: str,
    subject_id: str,
    details: dict[str, str],
    subject_type: str = "alert",
) -> None:
    await audit(
        transaction,
        network_class=network_class,
        actor=actor,
        action=action,
        subject_id=subject_id,
        subject_type=subject_type,
        details=details,
    )
