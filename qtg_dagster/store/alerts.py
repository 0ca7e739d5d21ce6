"""The rows of alerts: read and moved under one lock a network class; raised and resolved in anybody's transaction."""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.alert_messages import AlertView
from qtg_dagster.domain.alerts import AlertKind, Condition, Earlier, Episode, Severity
from qtg_dagster.domain.redaction import redact
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.statements import as_json

_LOCK_CLASS = 5330016

_LOCK = text("SELECT pg_advisory_xact_lock(:c, :n)")
_CLOCK = text("SELECT clock_timestamp()")
_WAKE = text("SELECT pg_notify('qtg_wake', 'deliver')")
_COLUMNS = """id, network_class, kind, dedupe_key, severity, title, details, raised, first_seen_at, last_seen_at,
           times_seen, absent_since, resolved_at, resolved_by, told_severity AS told, opened_told_at, last_told_at,
           resolution_told_at, acknowledged_by, acknowledged_until, acknowledge_reason"""
# What somebody is owed a word of, or may yet be: two partial indexes, however long the history.
_STANDING = text(f"""
    SELECT {_COLUMNS} FROM qtg.alerts WHERE network_class = :network_class AND resolved_at IS NULL
    UNION ALL
    SELECT {_COLUMNS} FROM qtg.alerts
    WHERE network_class = :network_class AND resolved_at IS NOT NULL AND told_severity IS NOT NULL
      AND resolution_told_at IS NULL
    ORDER BY id
""")  # noqa: S608 - our own constants
_EARLIER = text("""
    SELECT kind, dedupe_key, opened_told_at, told_severity FROM qtg.alerts
    WHERE network_class = :network_class AND opened_told_at > clock_timestamp() - interval '1 hour'
      AND resolved_at IS NOT NULL
""")
_INSERT = text("""
    INSERT INTO qtg.alerts (network_class, kind, dedupe_key, severity, title, details)
    VALUES (:network_class, :kind, :dedupe_key, :severity, :title, CAST(:details AS jsonb))
    ON CONFLICT (network_class, kind, dedupe_key) WHERE resolved_at IS NULL DO NOTHING
    RETURNING id
""")
_OBSERVE = text("""
    UPDATE qtg.alerts
    SET severity = :severity, title = :title, details = CAST(:details AS jsonb), times_seen = :times_seen,
        absent_since = :absent_since, resolved_at = :resolved_at,
        last_seen_at = CASE WHEN CAST(:absent_since AS timestamptz) IS NULL THEN clock_timestamp()
                            ELSE last_seen_at END
    WHERE id = :id AND resolved_at IS NULL AND NOT raised
""")
_TELL = text("""
    UPDATE qtg.alerts
    SET told_severity = :told, opened_told_at = :opened_told_at, last_told_at = :last_told_at,
        resolution_told_at = :resolution_told_at,
        acknowledged_until = CASE WHEN :void THEN NULL ELSE acknowledged_until END
    WHERE id = :id
""")
_RAISE = text("""
    INSERT INTO qtg.alerts AS a (network_class, kind, dedupe_key, severity, title, details, raised)
    VALUES (:network_class, :kind, :dedupe_key, :severity, :title, CAST(:details AS jsonb), true)
    ON CONFLICT (network_class, kind, dedupe_key) WHERE resolved_at IS NULL DO UPDATE
    SET severity = excluded.severity, title = excluded.title, details = excluded.details, raised = true,
        absent_since = NULL, last_seen_at = clock_timestamp(),
        times_seen = a.times_seen + (a.absent_since IS NOT NULL)::integer
    RETURNING id
""")
_RESOLVE = text("""
    UPDATE qtg.alerts SET resolved_at = clock_timestamp(), resolved_by = :by
    WHERE network_class = :network_class AND kind = :kind AND dedupe_key = :dedupe_key AND resolved_at IS NULL
    RETURNING id
""")
_READ = text(f"""
    SELECT {_COLUMNS} FROM qtg.alerts
    WHERE network_class = :network_class
      AND (CAST(:id AS bigint) IS NULL OR id = :id) AND (:resolved OR resolved_at IS NULL)
    ORDER BY resolved_at IS NOT NULL, CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END,
             first_seen_at DESC, id DESC
    LIMIT :most
""")  # noqa: S608 - our own constants
_ACKNOWLEDGE = text("""
    UPDATE qtg.alerts
    SET acknowledged_by = :actor, acknowledge_reason = :reason,
        acknowledged_until = clock_timestamp() + make_interval(secs => :seconds)
    WHERE id = :id AND network_class = :network_class AND resolved_at IS NULL
    RETURNING acknowledged_until
""")


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert's row: what is shown of it, and its episode."""

    view: AlertView
    episode: Episode

    @property
    def name(self) -> tuple[str, str]:
        return self.view.kind, self.view.dedupe_key


async def lock_alerts(transaction: Transaction, network_class: str) -> datetime:
    """Let nobody else move the alerts of a class until this transaction ends; the time from then on."""
    number = zlib.crc32(network_class.encode()) & 0x7FFFFFFF
    await transaction.execute(_LOCK, {"c": _LOCK_CLASS, "n": number})
    return await read_clock(transaction)


async def read_clock(transaction: Transaction) -> datetime:
    """The database's time at this moment."""
    now: datetime = (await transaction.execute(_CLOCK)).scalar_one()
    return now


async def standing_alerts(transaction: Transaction, network_class: str) -> list[StoredAlert]:
    """Alerts that are open, and those whose end people were not told of yet, oldest first."""
    return [_stored(row) for row in (await transaction.execute(_STANDING, {"network_class": network_class})).mappings()]


async def earlier_episodes(transaction: Transaction, network_class: str) -> dict[tuple[str, str], list[Earlier]]:
    """Ended episodes that people were told of within the hour, by (kind, key)."""
    found: dict[tuple[str, str], list[Earlier]] = defaultdict(list)
    for row in await transaction.execute(_EARLIER, {"network_class": network_class}):
        found[row.kind, row.dedupe_key].append(Earlier(row.opened_told_at, Severity(row.told_severity)))
    return found


async def insert_alert(transaction: Transaction, network_class: str, condition: Condition) -> int | None:
    """A new episode; None when somebody has raised the same just now."""
    row = (await transaction.execute(_INSERT, _condition(network_class, condition))).first()
    return None if row is None else int(row.id)


async def write_observation(
    transaction: Transaction, alert: StoredAlert, episode: Episode, condition: Condition | None
) -> None:
    """How an alert stands after a look; one that a part of QTG has raised since is left to it."""
    title = condition.title if condition is not None else alert.view.title
    details = condition.details() if condition is not None else dict(alert.view.details)
    bound = {
        "id": alert.view.id,
        "severity": episode.severity,
        "title": title,
        "details": as_json(redact(details)),
        "times_seen": episode.times_seen,
        "absent_since": episode.absent_since,
        "resolved_at": episode.resolved_at,
    }
    await transaction.execute(_OBSERVE, bound)


async def write_told(transaction: Transaction, alert_id: int, before: Episode, after: Episode) -> None:
    """What people have been told by now."""
    bound = {
        "id": alert_id,
        "told": after.told,
        "opened_told_at": after.opened_told_at,
        "last_told_at": after.last_told_at,
        "resolution_told_at": after.resolution_told_at,
        "void": before.acknowledged_until is not None and after.acknowledged_until is None,
    }
    await transaction.execute(_TELL, bound)


async def raise_alert(transaction: Transaction, network_class: str, condition: Condition) -> int:
    """Say in one's own transaction that something is the matter; it stays so until `resolve_alert`. Its id.

    For what no look at the database finds, such as drift: raising it again renews it and tells nobody twice.
    """
    alert_id = int((await transaction.execute(_RAISE, _condition(network_class, condition))).scalar_one())
    await transaction.execute(_WAKE)
    return alert_id


async def resolve_alert(
    transaction: Transaction, network_class: str, kind: AlertKind, key: str, *, by: str | None = None
) -> bool:
    """Say that what was raised is over; whether there was such an alert."""
    bound = {"network_class": network_class, "kind": kind.value, "dedupe_key": key, "by": by}
    found = (await transaction.execute(_RESOLVE, bound)).first()
    await transaction.execute(_WAKE)
    return found is not None


async def read_alerts(
    transaction: Transaction,
    network_class: str,
    *,
    alert_id: int | None = None,
    resolved: bool = False,
    most: int = 100,
) -> list[AlertView]:
    """Alerts for people: open ones first, the worst of them first; with `resolved`, those that are over too."""
    bound = {"network_class": network_class, "id": alert_id, "resolved": resolved, "most": most}
    return [_stored(row).view for row in (await transaction.execute(_READ, bound)).mappings()]


async def write_acknowledgement(
    transaction: Transaction, network_class: str, alert_id: int, *, actor: str, reason: str, seconds: float
) -> datetime | None:
    """Note who knows of an open alert; until when reminders are silent, or None when there is no such alert."""
    bound = {"network_class": network_class, "id": alert_id, "actor": actor, "reason": reason, "seconds": seconds}
    row = (await transaction.execute(_ACKNOWLEDGE, bound)).first()
    return None if row is None else row.acknowledged_until


def _condition(network_class: str, condition: Condition) -> dict[str, Any]:
    return {
        "network_class": network_class,
        "kind": condition.kind.value,
        "dedupe_key": condition.key,
        "severity": condition.severity.value,
        "title": condition.title,
        "details": as_json(redact(condition.details())),
    }


def _stored(row: Any) -> StoredAlert:
    values = dict(row)
    told = Severity(values["told"]) if values["told"] else None
    severity = Severity(values["severity"])
    moments = {name: values.pop(name) for name in ("opened_told_at", "last_told_at", "resolution_told_at")}
    view = AlertView(**{**values, "severity": severity, "told": told})
    episode = Episode(
        severity=severity,
        absent_since=view.absent_since,
        resolved_at=view.resolved_at,
        told=told,
        acknowledged_until=view.acknowledged_until,
        times_seen=view.times_seen,
        **moments,
    )
    return StoredAlert(view, episode)
