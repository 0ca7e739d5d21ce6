"""Movements in memory that wait for approval, decided on without holding them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from qtg_dagster.domain.requests import Decision, LockedRequest
from qtg_dagster.domain.states import RequestState
from tests.engine.memory_decisions import MemoryDecisions, all_or_nothing

if TYPE_CHECKING:
    from tests.engine.memory import MemoryStore


class MemoryPending:
    """What `engine.ports.Pending` asks for."""

    async def read_request(self: MemoryStore, request_id: str, network_class: str) -> LockedRequest:  # type: ignore[misc]
        return await MemoryDecisions(self).read_request(request_id, network_class)

    async def decide_pending(self: MemoryStore, request: LockedRequest, decision: Decision) -> bool:  # type: ignore[misc]
        row = self.requests[request.request_id]
        if row.request_state is not RequestState.PENDING_APPROVAL or row.expires_at <= self.clock.now():
            return False
        with all_or_nothing(self):
            await MemoryDecisions(self).decide(request, decision)
        return True

    async def find_expired(  # type: ignore[misc]
        self: MemoryStore, network_class: str, batch: int, *, but: Collection[str] = ()
    ) -> list[str]:
        due = [
            row
            for row in self.requests.values()
            if row.request_state is RequestState.PENDING_APPROVAL
            and (row.network_class == network_class and row.expires_at <= self.clock.now())
            and row.request_id not in but
        ]
        return [row.request_id for row in sorted(due, key=lambda row: (row.expires_at, row.request_id))[:batch]]
