"""The callback outbox as operators see it: what was told, what was given up, and what is to be told once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.callbacks import CallbackStatus
from qtg_dagster.store.database import Transaction

_VIEW = """
    SELECT event_id::text AS event_id, request_id::text AS request_id, sequence, event_type, receiver, callback_url,
           status, attempts, resends, created_at, next_attempt_at, last_attempt_at, delivered_at, last_status,
           last_error, body
    FROM qtg.movement_callback_outbox
    WHERE network_class = :network_class
"""
_LIST = text(
    _VIEW
    + """
      AND (CAST(:status AS text) IS NULL OR status = CAST(:status AS text))
      AND (CAST(:request_id AS text) IS NULL OR request_id::text = lower(CAST(:request_id AS text)))
      AND (CAST(:receiver AS text) IS NULL OR receiver = lower(CAST(:receiver AS text)))
    ORDER BY id DESC
    LIMIT :most
"""
)
_SHOW = text(_VIEW + " AND event_id::text = lower(:event_id)")
_GIVEN_UP = text("""
    SELECT receiver, count(*) AS many, min(created_at) AS oldest,
           (array_agg(last_error ORDER BY last_attempt_at DESC NULLS LAST))[1] AS last_error
    FROM qtg.movement_callback_outbox
    WHERE network_class = :network_class AND status = 'dlq'
    GROUP BY receiver
    ORDER BY receiver
""")
_WAITING = text("""
    SELECT count(*) FROM qtg.movement_callback_outbox WHERE network_class = :network_class AND status = 'pending'
""")
_REDRIVE = text("""
    UPDATE qtg.movement_callback_outbox
    SET status = 'pending', attempts = 0, next_attempt_at = now(), resends = resends + 1
    WHERE network_class = :network_class AND status = 'dlq'
      AND (CAST(:request_id AS text) IS NULL OR request_id::text = lower(CAST(:request_id AS text)))
      AND (CAST(:receiver AS text) IS NULL OR receiver = lower(CAST(:receiver AS text)))
    RETURNING event_id::text
""")
# What is being sent at this moment is let be; what waits for its next attempt need not wait.
_RESEND = text("""
    WITH meant AS (
        SELECT o.id, o.status, o.runner_id
        FROM qtg.movement_callback_outbox o
        WHERE o.network_class = :network_class
          AND (o.event_id::text = lower(CAST(:event_id AS text))
               OR o.request_id::text = lower(CAST(:request_id AS text))
               OR o.request_id IN (
                    SELECT n.request_id FROM qtg.movement_request_nodes n
                    WHERE CAST(:transaction_hash AS text) IS NOT NULL
                      AND jsonb_path_exists(n.provider_refs, '$.** ? (@ == $hash || @ == $lower)', jsonb_build_object(
                            'hash', CAST(:transaction_hash AS text), 'lower', lower(CAST(:transaction_hash AS text))))))
        FOR NO KEY UPDATE OF o
    ),
    again AS (
        UPDATE qtg.movement_callback_outbox o
        SET status = 'pending', next_attempt_at = now(),
            attempts = CASE WHEN o.status = 'pending' THEN o.attempts ELSE 0 END,
            resends = o.resends + CASE WHEN o.status = 'pending' THEN 0 ELSE 1 END
        FROM meant
        WHERE o.id = meant.id AND NOT (o.status = 'pending' AND o.runner_id IS NOT NULL)
        RETURNING o.id
    )
    SELECT (SELECT count(*) FROM meant) AS found, (SELECT count(*) FROM meant WHERE status <> 'pending') AS again,
           (SELECT count(*) FROM again) AS due
""")


@dataclass(frozen=True, slots=True)
class CallbackView:
    """One callback as an operator sees it."""

    event_id: str
    request_id: str
    sequence: int
    event_type: str
    receiver: str
    callback_url: str
    status: CallbackStatus
    attempts: int
    resends: int
    created_at: datetime
    next_attempt_at: datetime
    last_attempt_at: datetime | None
    delivered_at: datetime | None
    last_status: int | None
    last_error: str | None
    body: str

    def line(self) -> str:
        """For a list."""
        said = self.last_error or ("" if self.last_status is None else f"http_{self.last_status}")
        return (
            f"{self.event_id}  {self.status:9} {self.request_id} #{self.sequence:<3} {self.event_type:21} "
            f"{self.receiver}  attempts {self.attempts}  {said}"
        ).rstrip()


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The callbacks of one receiver that nobody tries any more."""

    receiver: str
    many: int
    oldest: datetime
    last_error: str | None

    def told(self) -> str:
        return f"{self.many} since {self.oldest:%Y-%m-%d %H:%M:%S} UTC, last: {self.last_error or 'unknown'}"


@dataclass(frozen=True, slots=True)
class Resent:
    """What a resend came to: callbacks that it meant, those told once more, and those that were on their way anyway."""

    found: int
    again: int
    waiting: int


async def list_callbacks(
    transaction: Transaction,
    network_class: str,
    *,
    status: CallbackStatus | None = None,
    request_id: str | None = None,
    receiver: str | None = None,
    most: int = 50,
) -> list[CallbackView]:
    """The newest first."""
    bound = {"status": status, "request_id": request_id, "receiver": receiver, "most": most}
    rows = await transaction.execute(_LIST, {"network_class": network_class, **bound})
    return [_view(row) for row in rows.mappings()]


async def find_callback(transaction: Transaction, network_class: str, event_id: str) -> CallbackView | None:
    """One callback by its event id."""
    rows = await transaction.execute(_SHOW, {"network_class": network_class, "event_id": event_id})
    row = rows.mappings().one_or_none()
    return None if row is None else _view(row)


async def given_up(transaction: Transaction, network_class: str) -> list[GivenUp]:
    """What is in the dlq, by receiver."""
    rows = await transaction.execute(_GIVEN_UP, {"network_class": network_class})
    return [GivenUp(row.receiver, row.many, row.oldest, row.last_error) for row in rows]


async def count_pending(transaction: Transaction, network_class: str) -> int:
    """Callbacks that are not settled, due or not."""
    return int((await transaction.execute(_WAITING, {"network_class": network_class})).scalar_one())


async def redrive(
    transaction: Transaction, network_class: str, *, request_id: str | None, receiver: str | None
) -> list[str]:
    """Have what is in the dlq tried anew; gives the ids of these events."""
    bound = {"network_class": network_class, "request_id": request_id, "receiver": receiver}
    return list((await transaction.execute(_REDRIVE, bound)).scalars())


async def resend(
    transaction: Transaction,
    network_class: str,
    *,
    event_id: str | None = None,
    request_id: str | None = None,
    transaction_hash: str | None = None,
) -> Resent:
    """Have callbacks told once more, or at once when they wait for their next attempt."""
    bound = {"event_id": event_id, "request_id": request_id, "transaction_hash": transaction_hash}
    row = (await transaction.execute(_RESEND, {"network_class": network_class, **bound})).one()
    return Resent(row.found, row.again, row.found - row.again)


async def wake_delivery(transaction: Transaction) -> None:
    """Have delivery look at once when the transaction commits."""
    await transaction.execute(text("SELECT pg_notify('qtg_wake', 'deliver')"))


def _view(row: Mapping[Any, Any]) -> CallbackView:
    return CallbackView(**{**row, "status": CallbackStatus(row["status"])})
