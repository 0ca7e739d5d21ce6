"""Movement requests: stored, locked, and moved as a whole. The drains' writes are in `moves`, people's in `decided`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from qtg_dagster.domain.errors import Conflict, NotFound
from qtg_dagster.domain.journal import CallbackEvent
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.requests import UNSEEN, InsertedRequest, LockedRequest, NewRequest, StandingRequest
from qtg_dagster.domain.states import (
    FINAL_REQUEST_STATES,
    RequestState,
    check_request_move,
)
from qtg_dagster.store.database import InTransaction
from qtg_dagster.store.decision_rows import is_request_id, request_of, unknown_request
from qtg_dagster.store.sessions import last_row
from qtg_dagster.store.statements import as_json, native, statement

_SERIALIZATION_FAILURE = "40001"
# One statement, one snapshot: whatever is being deleted meanwhile, a key is found in one place of the two.
_BY_KEY = text("""
    SELECT r.id::text AS request_id, r.body_hash, v.version AS template_version, r.compiled_plan_hash,
           r.approval_digest, r.expires_at
    FROM qtg.movement_requests r JOIN qtg.movement_plan_versions v ON v.id = r.plan_version_id
    WHERE r.network_class = :network_class AND r.idempotency_key = :key
    UNION ALL
    SELECT request_id::text, body_hash, template_version, compiled_plan_hash, approval_digest, expires_at
    FROM qtg.movement_tombstones WHERE network_class = :network_class AND idempotency_key = :key
""")
_SET_STATE = text("""
    UPDATE qtg.movement_requests
    SET request_state = :state,
        current_frontier = coalesce(CAST(:frontier AS text[]), current_frontier),
        approved_at = CASE WHEN :state = 'APPROVED' THEN now() ELSE approved_at END,
        finished_at = CASE WHEN CAST(:finished AS boolean) THEN now() ELSE finished_at END
    WHERE id = CAST(:request_id AS uuid)
""")


class Requests(InTransaction):
    """Movements: stored, locked, and moved as a whole."""

    async def find_by_key(self, network_class: str, key: str) -> StandingRequest | None:
        """The movement that an idempotency key belongs to; its rows may be gone, its tombstone is not."""
        row = (await self._tx.execute(_BY_KEY, {"network_class": network_class, "key": key})).mappings().one_or_none()
        return None if row is None else StandingRequest(**row)

    async def insert_request(self, new: NewRequest) -> InsertedRequest | None:
        """Store a movement, its BLOCKED nodes and who asked for it; None when its idempotency key is taken.

        Waits for another transaction that is storing a movement under the key. Raises `Conflict` in a transaction whose
        snapshot is too old to see what that one stored.
        """
        nodes = [
            {
                "plan_node_id": new.stored.node_ids[node.node_key],
                "node_key": node.node_key,
                "node_kind": node.node_kind,
                "executor_key": node.executor_key,
                "serialization_key": new.serialization_keys.get(node.node_key),
                "scopes": list(new.scopes[node.node_key]),
            }
            for node in new.stored.plan.nodes
        ]
        hashes = {"compiled_plan_hash": new.compiled_plan_hash, "approval_digest": new.approval_digest}
        details = redact({**hashes, "intent": dict(new.intent), **({"reason": new.reason} if new.reason else {})})
        bound = {
            "network_class": new.network_class,
            "plan_version_id": new.stored.plan_version_id,
            "idempotency_key": new.idempotency_key,
            "body_hash": new.body_hash,
            "intent": as_json(dict(new.intent)),
            "input_params": as_json(dict(new.input_params)),
            "resolved_bindings": as_json(dict(new.resolved_bindings)),
            "compiled_plan_hash": new.compiled_plan_hash,
            "approval_digest": new.approval_digest,
            "requested_by": new.requested_by,
            "reason": new.reason,
            "callback_url": new.callback_url,
            "ttl_seconds": new.ttl_seconds,
            "nodes": as_json(nodes),
            "details": as_json(details),
        }
        try:
            row = (await self._tx.execute(statement("insert_request"), bound)).one_or_none()
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _SERIALIZATION_FAILURE:
                raise
            raise Conflict(UNSEEN) from error
        return None if row is None else InsertedRequest(row.request_id, row.expires_at, row.unwell or {})

    async def lock_request(self, request_id: str, network_class: str) -> LockedRequest:
        """Lock a movement and read it; raises `NotFound`."""
        return await self._read(("lock_request", "read_request"), request_id, network_class)

    async def lock_expired(self, request_id: str, network_class: str) -> LockedRequest | None:
        """A movement whose approval window has closed undecided, locked; None when it is not, or somebody holds it."""
        which = {"request_id": request_id, "network_class": network_class}
        held = await last_row(self._tx, [native("lock_expired")], which)
        return None if held is None else await self.read_request(request_id, network_class)

    async def read_request(self, request_id: str, network_class: str) -> LockedRequest:
        """The same without the lock, to be shown: nothing may be decided on it. Raises `NotFound`."""
        return await self._read(("read_request",), request_id, network_class)

    async def _read(self, names: Sequence[str], request_id: str, network_class: str) -> LockedRequest:
        which = {"request_id": request_id, "network_class": network_class}
        row = None
        if is_request_id(request_id):
            row = await last_row(self._tx, [native(name) for name in names], which)
        if row is None:
            raise NotFound(unknown_request(request_id, network_class))
        return request_of(row)

    async def set_request_state(
        self, request: LockedRequest, state: RequestState, *, frontier: Sequence[str] | None = None
    ) -> None:
        """Move a locked movement and tell its owner."""
        check_request_move(request.request_state, state)
        await self._tx.execute(
            _SET_STATE,
            {
                "request_id": request.request_id,
                "state": state,
                "frontier": list(frontier) if frontier is not None else None,
                "finished": state in FINAL_REQUEST_STATES,
            },
        )
        await self._tell(request, CallbackEvent.REQUEST_STATE_CHANGED, {"request_state": state})

    async def advance_frontier(self, request: LockedRequest, frontier: Sequence[str], *, after: str) -> None:
        """Record which nodes a locked movement has come to, and tell its owner."""
        await self._tx.execute(
            text(
                "UPDATE qtg.movement_requests SET current_frontier = CAST(:frontier AS text[]) "
                "WHERE id = CAST(:request_id AS uuid)"
            ),
            {"request_id": request.request_id, "frontier": list(frontier)},
        )
        await self._tell(request, CallbackEvent.FRONTIER_ADVANCED, {"node_key": after, "frontier": list(frontier)})

    async def _tell(self, request: LockedRequest, event: CallbackEvent, payload: Mapping[str, Any]) -> None:
        if request.callback_url is None:
            return
        await self._tx.execute(
            text(
                "INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url) "
                "VALUES (CAST(:request_id AS uuid), :event, CAST(:payload AS jsonb), :url)"
            ),
            {
                "request_id": request.request_id,
                "event": event,
                "payload": as_json({"request_id": request.request_id, **payload}),
                "url": request.callback_url,
            },
        )
