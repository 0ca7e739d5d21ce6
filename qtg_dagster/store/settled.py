"""Movements that came to an end or to a stop, for those who report them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from qtg_dagster.domain.states import RequestState
from qtg_dagster.store.database import Transaction

_SETTLED = text("""
    SELECT id::text AS request_id, request_state, settled_at
    FROM (
        SELECT id, request_state, finished_at AS settled_at, network_class
        FROM qtg.movement_requests
        WHERE finished_at > :since
        UNION ALL
        SELECT id, request_state, updated_at, network_class
        FROM qtg.movement_requests
        WHERE finished_at IS NULL AND request_state IN ('FAILED', 'MANUAL_INTERVENTION') AND updated_at > :since
    ) AS settled
    WHERE network_class = :network_class AND NOT (id::text || ' ' || request_state) = ANY (CAST(:told AS text[]))
    ORDER BY settled_at
    LIMIT :most
""")
_STOPPED = text("""
    SELECT id::text AS request_id, request_state, updated_at AS settled_at
    FROM qtg.movement_requests
    WHERE finished_at IS NULL AND request_state = 'MANUAL_INTERVENTION' AND network_class = :network_class
    ORDER BY updated_at
    LIMIT :most
""")


@dataclass(frozen=True, slots=True)
class Settled:
    """A movement and the state in which it came to rest."""

    request_id: str
    request_state: RequestState
    settled_at: datetime

    @property
    def mark(self) -> str:
        """Names this very settling: a movement can come to rest, be retried, and come to rest again."""
        return f"{self.request_id} {self.request_state}"


async def settled_since(
    transaction: Transaction, network_class: str, since: datetime, *, told: Collection[str] = (), most: int = 100
) -> list[Settled]:
    """Movements that ended, failed or need intervention since, oldest first, without those whose mark is in `told`."""
    bound = {"network_class": network_class, "since": since, "told": list(told), "most": most}
    return [_settled(row) for row in (await transaction.execute(_SETTLED, bound))]


async def needing_intervention(transaction: Transaction, network_class: str, *, most: int = 50) -> list[Settled]:
    """Movements that go no further without a person, longest waiting first."""
    return [
        _settled(row) for row in (await transaction.execute(_STOPPED, {"network_class": network_class, "most": most}))
    ]


def _settled(row: object) -> Settled:
    return Settled(row.request_id, RequestState(row.request_state), row.settled_at)  # type: ignore[attr-defined]
