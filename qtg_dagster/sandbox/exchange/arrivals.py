"""What clients asked of the venues, in order: the witness for "one POST in all"."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from qtg_dagster.sandbox.exchange.dialect import Role
from qtg_dagster.sandbox.exchange.faults import Fault
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import VenueRequest

_KEPT = 20_000


@dataclass
class Asked:
    """One request as it arrived and what became of it; no key and no signature is kept.

    `copy_outcome` is what became of the copy that something between client and venue made of it.
    """

    seq: int
    at_ms: int
    venue: str
    method: str
    endpoint: str
    role: Role
    order_id: str | None
    fault: str | None
    outcome: str = "not executed"
    copy_outcome: str | None = None


class RequestLog:
    """The last requests, in memory."""

    def __init__(self) -> None:
        self._seq = count(1)
        self._kept: deque[Asked] = deque(maxlen=_KEPT)

    def note(self, venue: Venue, request: VenueRequest, role: Role, fault: Fault | None) -> Asked:
        """Write down an arrival; its `outcome` is filled in later."""
        asked = Asked(
            seq=next(self._seq),
            at_ms=venue.now_ms(),
            venue=venue.key,
            method=request.method,
            endpoint=request.endpoint,
            role=role,
            order_id=venue.dialect.order_id(request),
            fault=None if fault is None else fault.kind.value,
        )
        self._kept.append(asked)
        return asked

    def rows(self, *, venue: str | None, endpoint: str | None) -> list[dict[str, Any]]:
        """The requests kept, oldest first; `endpoint` is a path or a role."""
        return [
            asdict(item)
            for item in self._kept
            if venue in (None, item.venue) and endpoint in (None, item.endpoint, item.role)
        ]
