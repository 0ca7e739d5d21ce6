"""What clients asked of the venues, in order: the witness for "one POST in all"."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from qtg_dagster.sandbox.exchange.faults import Fault
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest

_KEPT = 20_000


@dataclass
class Asked:
    """One request as it arrived and what became of it; no key and no signature is kept."""

    seq: int
    at_ms: int
    venue: str
    method: str
    endpoint: str
    order_id: str | None
    fault: str | None
    outcome: str = "not executed"


class RequestLog:
    """The last requests, in memory."""

    def __init__(self) -> None:
        self._seq = count(1)
        self._kept: deque[Asked] = deque(maxlen=_KEPT)

    def note(self, venue: str, request: VenueRequest, fault: Fault | None, at_ms: int) -> Asked:
        """Write down an arrival; its `outcome` is filled in later."""
        try:
            order_id = request.parameters().text("withdrawOrderId")
        except Refusal:
            order_id = None
        kind = None if fault is None else fault.kind.value
        asked = Asked(next(self._seq), at_ms, venue, request.method, request.endpoint, order_id, kind)
        self._kept.append(asked)
        return asked

    def rows(self, *, venue: str | None, endpoint: str | None) -> list[dict[str, Any]]:
        """The requests kept, oldest first."""
        return [
            asdict(item) for item in self._kept if venue in (None, item.venue) and endpoint in (None, item.endpoint)
        ]
