"""Movements that wait for approval, decided on without holding them: a short read and one guarded statement."""

from __future__ import annotations

from collections.abc import Collection

from qtg_dagster.domain.errors import NotFound
from qtg_dagster.domain.requests import Decision, LockedRequest
from qtg_dagster.store.database import OnDatabase
from qtg_dagster.store.decision_rows import decision_parameters, is_request_id, request_of, unknown_request
from qtg_dagster.store.statements import native


class Pending(OnDatabase):
    """Movements that nothing but a decision moves yet."""

    async def read_request(self, request_id: str, network_class: str) -> LockedRequest:
        """A movement as it stands, held by nobody; raises `NotFound`."""
        row = None
        if is_request_id(request_id):
            which = {"request_id": request_id, "network_class": network_class}
            async with self._database.connection() as connection:
                row = await (await connection.execute(native("read_request"), which)).fetchone()
        if row is None:
            raise NotFound(unknown_request(request_id, network_class))
        return request_of(row)

    async def decide_pending(self, request: LockedRequest, decision: Decision) -> bool:
        """Write a decision if the movement still waits for approval, within its window; says whether it was written.

        What was read of such a movement still holds then: until it is decided on, nothing else of it moves.
        """
        bound = {**decision_parameters(request, decision), "pending": True}
        async with self._database.connection() as connection:
            row = await (await connection.execute(native("decide"), bound)).fetchone()
        return row is not None and row["decided"] == 1

    async def find_expired(self, network_class: str, batch: int, *, but: Collection[str] = ()) -> list[str]:
        """Ids of movements whose window has closed undecided, longest over first, at most `batch` of them."""
        bound = {"network_class": network_class, "batch": batch, "but": list(but)}
        async with self._database.connection() as connection:
            rows = await (await connection.execute(native("find_expired"), bound)).fetchall()
        return [row["request_id"] for row in rows]
