"""What may be the matter, as the database has it: one look a kind of alert, each over an index of few rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from qtg_dagster.store.database import Transaction

_STOPPED = text("""
    SELECT r.id::text AS request_id, t.template_key, r.intent,
           r.state_version || '.' || (SELECT coalesce(sum(n.state_version), 0) FROM qtg.movement_request_nodes n
                                      WHERE n.request_id = r.id) AS mark
    FROM qtg.movement_requests r
    JOIN qtg.movement_plan_versions v ON v.id = r.plan_version_id
    JOIN qtg.movement_templates t ON t.id = v.template_id
    WHERE r.finished_at IS NULL AND r.request_state = :request_state AND r.network_class = :network_class
    ORDER BY r.created_at
""")
_TROUBLED = text("""
    SELECT n.node_key, n.node_state, n.error_code, n.error_message, n.provider_refs, s.facts
    FROM qtg.movement_request_nodes n
    LEFT JOIN LATERAL (SELECT facts FROM qtg.movement_node_steps s
                       WHERE s.request_node_id = n.id ORDER BY s.id DESC LIMIT 1) AS s ON true
    WHERE n.request_id = CAST(:request_id AS uuid)
      AND (n.node_state IN ('FAILED', 'UNKNOWN') OR n.error_code IS NOT NULL)
    ORDER BY n.node_key
""")
# A node is looked at again and again; how long it has been uncertain, the step says that made it so.
_UNCERTAIN = text("""
    SELECT r.id::text AS request_id, n.node_key, n.node_state, n.executor_key, n.attempt_no, n.provider_refs,
           n.error_code, n.error_message, began.at AS since,
           extract(epoch FROM clock_timestamp() - began.at)::float AS age_seconds
    FROM qtg.movement_request_nodes n
    JOIN qtg.movement_requests r ON r.id = n.request_id AND r.network_class = :network_class
    CROSS JOIN LATERAL (
        SELECT coalesce(max(s.recorded_at), n.started_at, n.updated_at) AS at FROM qtg.movement_node_steps s
        WHERE s.request_node_id = n.id AND s.to_state = n.node_state AND s.from_state IS DISTINCT FROM s.to_state
    ) AS began
    WHERE n.node_state IN ('UNKNOWN', 'SUBMITTING') AND r.request_state = 'EXECUTING'
      AND began.at < clock_timestamp() - make_interval(secs => :older)
    ORDER BY began.at
""")
# By host and port: a user, password or path may be a secret.
_DLQ = text("""
    SELECT split_part(regexp_replace(receiver, '^.*@', ''), '/', 1) AS receiver, count(*) AS callbacks,
           min(created_at) AS oldest, max(created_at) AS newest,
           (array_agg(last_error ORDER BY id DESC))[1] AS last_error
    FROM qtg.movement_callback_outbox
    WHERE status = 'dlq' AND network_class = :network_class
    GROUP BY 1 ORDER BY 1
""")
_BEHIND = text("""
    SELECT 'callbacks' AS outbox, count(*) AS entries, min(next_attempt_at) AS oldest
    FROM qtg.movement_callback_outbox
    WHERE status = 'pending' AND network_class = :network_class
      AND next_attempt_at < clock_timestamp() - make_interval(secs => :older)
    UNION ALL
    SELECT 'audit entries', count(*), min(occurred_at) FROM qtg.audit_outbox
    WHERE promoted_at IS NULL AND network_class = :network_class
      AND occurred_at < clock_timestamp() - make_interval(secs => :older)
""")
_FAILING = text("""
    SELECT channel, count(*) AS messages, max(attempts) AS attempts, min(created_at) AS oldest,
           (array_agg(last_error ORDER BY attempts DESC))[1] AS last_error
    FROM qtg.alert_deliveries
    WHERE network_class = :network_class AND outcome = 'pending' AND attempts >= :attempts AND last_error IS NOT NULL
    GROUP BY channel ORDER BY channel
""")


@dataclass(frozen=True, slots=True)
class StoppedMovement:
    """A movement that waits for a person; `mark` changes when it or a node of it moves."""

    request_id: str
    template_key: str
    intent: Mapping[str, Any]
    mark: str


@dataclass(frozen=True, slots=True)
class TroubledNode:
    """A node that failed, is uncertain, or has an error to tell; `facts` are its last step's."""

    node_key: str
    node_state: str
    error_code: str | None
    error_message: str | None
    provider_refs: Mapping[str, Any]
    facts: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class UncertainNode:
    """A node of which nobody knows yet whether it took effect."""

    request_id: str
    node_key: str
    node_state: str
    executor_key: str | None
    attempt_no: int
    provider_refs: Mapping[str, Any]
    error_code: str | None
    error_message: str | None
    since: datetime
    age_seconds: float


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Callbacks of one receiver that are not tried any more."""

    receiver: str
    callbacks: int
    oldest: datetime
    newest: datetime
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Behind:
    """Entries of an outbox that should have gone long ago."""

    outbox: str
    entries: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class FailingChannel:
    """A channel that messages do not get through to."""

    channel: str
    messages: int
    attempts: int
    oldest: datetime
    last_error: str | None


async def stopped_movements(transaction: Transaction, network_class: str, request_state: str) -> list[StoppedMovement]:
    """Movements in that state, oldest first."""
    bound = {"network_class": network_class, "request_state": request_state}
    return [StoppedMovement(**row) for row in (await transaction.execute(_STOPPED, bound)).mappings()]


async def troubled_nodes(transaction: Transaction, request_id: str) -> list[TroubledNode]:
    """What went wrong in a movement."""
    return [
        TroubledNode(**row) for row in (await transaction.execute(_TROUBLED, {"request_id": request_id})).mappings()
    ]


async def uncertain_nodes(transaction: Transaction, network_class: str, older_seconds: float) -> list[UncertainNode]:
    """Nodes that have been UNKNOWN or SUBMITTING for so long, longest first; not those of stopped movements."""
    bound = {"network_class": network_class, "older": older_seconds}
    return [UncertainNode(**row) for row in (await transaction.execute(_UNCERTAIN, bound)).mappings()]


async def dead_letters(transaction: Transaction, network_class: str) -> list[DeadLetters]:
    """Callbacks in the dlq, by receiver."""
    return [
        DeadLetters(**row) for row in (await transaction.execute(_DLQ, {"network_class": network_class})).mappings()
    ]


async def outboxes_behind(transaction: Transaction, network_class: str, older_seconds: float) -> list[Behind]:
    """Outboxes with entries that have been due for so long."""
    bound = {"network_class": network_class, "older": older_seconds}
    found = [Behind(**row) for row in (await transaction.execute(_BEHIND, bound)).mappings()]
    return [each for each in found if each.entries]


async def failing_channels(transaction: Transaction, network_class: str, attempts: int) -> list[FailingChannel]:
    """Channels with messages that have failed so often."""
    bound = {"network_class": network_class, "attempts": attempts}
    return [FailingChannel(**row) for row in (await transaction.execute(_FAILING, bound)).mappings()]
