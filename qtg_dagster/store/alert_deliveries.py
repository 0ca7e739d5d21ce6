"""Messages about alerts: planned with the word that is due, claimed by whoever sends, each tried until it arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.alert_messages import AlertView
from qtg_dagster.domain.alerts import Outcome, Severity, What
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.store.database import Transaction

#: A message that could not be sent for so long is given up; a channel that fails so long has an alert of its own.
GIVEN_UP_AFTER_HOURS = 24

# `heard`: it was sent, or may have been by somebody who died before saying so.
_STATES = text("""
    SELECT alert_id, channel, max(what) FILTER (WHERE outcome = 'pending') AS pending,
           coalesce(bool_or(attempts > 0) FILTER (WHERE outcome = 'pending'), false) AS attempted,
           coalesce(bool_or(attempts > 0) FILTER (WHERE outcome <> 'pending'), false) AS heard
    FROM qtg.alert_deliveries WHERE alert_id = ANY (CAST(:alert_ids AS bigint[]))
    GROUP BY alert_id, channel
""")
_SUPERSEDE = text("""
    UPDATE qtg.alert_deliveries SET outcome = 'superseded', settled_at = clock_timestamp()
    WHERE alert_id = :alert_id AND channel = :channel AND outcome = 'pending'
""")
_PLAN = text("""
    INSERT INTO qtg.alert_deliveries (alert_id, network_class, channel, what)
    VALUES (:alert_id, :network_class, :channel, :what)
    ON CONFLICT (alert_id, channel) WHERE outcome = 'pending' DO NOTHING
""")
_DROP = text("""
    UPDATE qtg.alert_deliveries SET outcome = 'dropped', settled_at = clock_timestamp()
    WHERE network_class = :network_class AND outcome = 'pending' AND NOT channel = ANY (CAST(:channels AS text[]))
""")
_GIVE_UP = text("""
    UPDATE qtg.alert_deliveries SET outcome = 'failed', settled_at = clock_timestamp()
    WHERE network_class = :network_class AND outcome = 'pending' AND next_attempt_at <= clock_timestamp()
      AND created_at < clock_timestamp() - make_interval(hours => :hours)
""")
# One send a channel at a time, whoever sends: while one is claimed or waits for its next try, the channel rests.
# When many are due they go together; one that was refused waits behind those that are new.
_CLAIM = text("""
    WITH due AS (
        SELECT id, attempts FROM qtg.alert_deliveries
        WHERE network_class = :network_class AND channel = :channel AND outcome = 'pending'
        ORDER BY attempts, id
        LIMIT :most FOR NO KEY UPDATE
    ), chosen AS (
        SELECT id FROM due ORDER BY attempts, id
        LIMIT CASE WHEN (SELECT count(*) FROM due) >= :together THEN :most ELSE 1 END
    )
    UPDATE qtg.alert_deliveries d
    SET attempts = d.attempts + 1, next_attempt_at = clock_timestamp() + make_interval(secs => :lease)
    FROM chosen, qtg.alerts a
    WHERE d.id = chosen.id AND a.id = d.alert_id
    RETURNING d.id AS delivery_id, d.attempts, d.what, a.id, a.network_class, a.kind, a.dedupe_key, a.severity,
              a.title, a.details, a.raised, a.first_seen_at, a.last_seen_at, a.times_seen, a.absent_since,
              a.resolved_at, a.resolved_by
""")
_CHANNEL_LOCK = text("SELECT pg_advisory_xact_lock(5330017, hashtext(:name))")
_RESTS = text("""
    SELECT EXISTS (SELECT FROM qtg.alert_deliveries
                   WHERE network_class = :network_class AND channel = :channel AND outcome = 'pending'
                     AND next_attempt_at > clock_timestamp())
""")
_SETTLE = text("""
    UPDATE qtg.alert_deliveries
    SET outcome = :outcome, last_error = :error,
        settled_at = CASE WHEN :outcome = 'pending' THEN NULL ELSE clock_timestamp() END,
        next_attempt_at = clock_timestamp() + make_interval(secs => :pause)
    WHERE id = :id AND attempts = :attempts AND outcome = 'pending'
    RETURNING id
""")
_WAITING = text("""
    SELECT count(DISTINCT channel) FROM qtg.alert_deliveries d
    WHERE network_class = :network_class AND outcome = 'pending' AND channel = ANY (CAST(:channels AS text[]))
      AND NOT EXISTS (
            SELECT FROM qtg.alert_deliveries o
            WHERE o.network_class = d.network_class AND o.channel = d.channel AND o.outcome = 'pending'
              AND o.next_attempt_at > clock_timestamp() + make_interval(secs => :horizon))
""")
_PENDING = text("""
    SELECT count(*) FROM qtg.alert_deliveries
    WHERE network_class = :network_class AND outcome = 'pending' AND next_attempt_at <= clock_timestamp()
""")
_OF_ALERT = text("""
    SELECT channel, what, outcome, attempts, created_at, settled_at, last_error FROM qtg.alert_deliveries
    WHERE alert_id = :alert_id ORDER BY id
""")


@dataclass(frozen=True, slots=True)
class ChannelState:
    """What one channel has of one alert: its unsent message, whether that was tried, whether an earlier one was."""

    pending: What | None = None
    attempted: bool = False
    heard: bool = False


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message to be sent now, and how its alert stands; `attempts` counts this one."""

    delivery_id: int
    attempts: int
    what: What
    alert: AlertView


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """A message as it is shown."""

    channel: str
    what: str
    outcome: str
    attempts: int
    created_at: Any
    settled_at: Any
    last_error: str | None

    def line(self) -> str:
        when = self.settled_at or self.created_at
        trouble = f": {self.last_error}" if self.last_error else ""
        became = f"{self.outcome}, tries {self.attempts}{trouble}"
        return f"{when:%Y-%m-%d %H:%M:%S}  {self.channel:<16} {self.what:<10} {became}"


async def channel_states(transaction: Transaction, alert_ids: Sequence[int]) -> Mapping[tuple[int, str], ChannelState]:
    """(alert, channel) -> what the channel has of it, for all that were ever planned."""
    rows = await transaction.execute(_STATES, {"alert_ids": list(alert_ids)})
    return {
        (row.alert_id, row.channel): ChannelState(What(row.pending) if row.pending else None, row.attempted, row.heard)
        for row in rows
    }


async def plan_delivery(transaction: Transaction, network_class: str, alert_id: int, channel: str, what: What) -> None:
    """A message to be sent from now on."""
    bound = {"alert_id": alert_id, "network_class": network_class, "channel": channel, "what": what.value}
    await transaction.execute(_PLAN, bound)


async def supersede(transaction: Transaction, alert_id: int, channel: str) -> None:
    """Take back an unsent message."""
    await transaction.execute(_SUPERSEDE, {"alert_id": alert_id, "channel": channel})


async def tidy(transaction: Transaction, network_class: str, channels: Sequence[str]) -> None:
    """Drop messages to channels that there are no longer, and give up those that are too old."""
    await transaction.execute(_DROP, {"network_class": network_class, "channels": list(channels)})
    await transaction.execute(_GIVE_UP, {"network_class": network_class, "hours": GIVEN_UP_AFTER_HOURS})


async def claim(
    transaction: Transaction, network_class: str, channel: str, *, lease_seconds: float, together: int, most: int
) -> list[Claimed]:
    """The next message of a channel, or all that are due when there are at least `together`; none while it rests.

    Who dies with a claim loses it when the lease is over: the message is sent again then.
    """
    about = {"network_class": network_class, "channel": channel}
    await transaction.execute(_CHANNEL_LOCK, {"name": f"{network_class}:{channel}"})
    if (await transaction.execute(_RESTS, about)).scalar_one():
        return []
    bound = {**about, "lease": lease_seconds, "together": together, "most": most}
    rows = (await transaction.execute(_CLAIM, bound)).mappings().all()
    return sorted((_claimed(row) for row in rows), key=lambda each: each.delivery_id)


async def settle(
    transaction: Transaction, claimed: Claimed, outcome: Outcome, *, error: str | None = None, pause_seconds: float = 0
) -> bool:
    """What became of a claimed message; False when the claim was lost meanwhile. PENDING = another try is due."""
    bound = {
        "id": claimed.delivery_id,
        "attempts": claimed.attempts,
        "outcome": outcome.value,
        "error": redact_text(error) if error else None,
        "pause": pause_seconds,
    }
    return (await transaction.execute(_SETTLE, bound)).first() is not None


async def count_waiting(
    transaction: Transaction, network_class: str, channels: Sequence[str], horizon_seconds: float = 0
) -> int:
    """Channels that have something to send by then and do not rest."""
    bound = {"network_class": network_class, "channels": list(channels), "horizon": float(horizon_seconds)}
    return int((await transaction.execute(_WAITING, bound)).scalar_one())


async def count_pending(transaction: Transaction, network_class: str) -> int:
    """Messages that are due, to whatever channel."""
    return int((await transaction.execute(_PENDING, {"network_class": network_class})).scalar_one())


async def deliveries_of(transaction: Transaction, alert_id: int) -> list[DeliveryView]:
    """Every message of an alert, oldest first."""
    return [DeliveryView(**row) for row in (await transaction.execute(_OF_ALERT, {"alert_id": alert_id})).mappings()]


def _claimed(row: Any) -> Claimed:
    values = dict(row)
    delivery_id, attempts, what = values.pop("delivery_id"), values.pop("attempts"), What(values.pop("what"))
    return Claimed(delivery_id, attempts, what, AlertView(**{**values, "severity": Severity(values["severity"])}))
