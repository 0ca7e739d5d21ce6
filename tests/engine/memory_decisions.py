"""What people decide, written in memory: all of a block's writes stand, or none."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from qtg_dagster.domain.contract import ADOPTED_REF
from qtg_dagster.domain.errors import InvalidInput, NotFound
from qtg_dagster.domain.journal import AttemptOutcome, StepKind
from qtg_dagster.domain.plans import NodeKind, Plan
from qtg_dagster.domain.requests import (
    Adoption,
    Decision,
    FoundNode,
    InsertedRequest,
    LockedRequest,
    NewRequest,
    NodeMove,
    Publisher,
    StandingRequest,
    StoredPlan,
)
from qtg_dagster.domain.states import NodeState, RequestState, check_request_move
from tests.engine.memory_rows import Attempt, Deed, Node, Request

if TYPE_CHECKING:
    from tests.engine.memory import MemoryStore

_WITHOUT_EFFECT = frozenset({AttemptOutcome.NOT_SENT, AttemptOutcome.REJECTED, AttemptOutcome.FAILED})


@contextmanager
def all_or_nothing(store: MemoryStore) -> Iterator[None]:
    """Take every write of the block back when it raises."""
    tables = (store.requests, store.nodes, store.attempts)
    before = [{key: copy.copy(row) for key, row in table.items()} for table in tables]
    plans = {key: list(versions) for key, versions in store.plans.items()}
    steps, deeds = len(store.journal), len(store.deeds)
    try:
        yield
    except BaseException:
        for table, rows in zip(tables, before, strict=True):
            table.clear()
            table.update(rows)  # type: ignore[arg-type]
        store.plans = plans
        del store.journal[steps:], store.deeds[deeds:]
        raise


def standing_of(request: Request) -> StandingRequest:
    """What a key's holder is told of it."""
    return StandingRequest(
        request.request_id,
        request.body_hash,
        request.stored.version,
        request.compiled_plan_hash,
        request.approval_digest,
        request.expires_at,
    )


class MemoryDecisions:
    """What `engine.ports.Decisions` asks for, over a store in memory. Nobody else works while one of its calls does."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def publish_plan(self, plan: Plan, *, by: Publisher | None = None) -> StoredPlan:  # noqa: ARG002
        versions = self._store.plans.setdefault(plan.template_key, [])
        if not versions or versions[-1].plan.whole_text != plan.whole_text:
            node_ids = {node.node_key: place for place, node in enumerate(plan.nodes)}
            versions.append(StoredPlan(len(versions) + 1, len(versions) + 1, plan, node_ids))
        return versions[-1]

    async def find_plan(self, template_key: str, version: int | None = None) -> StoredPlan | None:
        versions = self._store.plans.get(template_key, [])
        if not versions or (version or 1) > len(versions):
            return None
        return versions[version - 1 if version else -1]

    async def require_plan(self, template_key: str, version: int | None = None) -> StoredPlan:
        stored = await self.find_plan(template_key, version)
        if stored is None:
            raise InvalidInput("template_key", f"there is no template {template_key!r}", "Publish it.")
        return stored

    async def find_by_key(self, network_class: str, key: str) -> StandingRequest | None:
        for request in self._store.requests.values():
            if (request.network_class, request.idempotency_key) == (network_class, key):
                return standing_of(request)
        return self._store.tombstones.get((network_class, key))

    async def insert_request(self, new: NewRequest) -> InsertedRequest | None:
        if new.idempotency_key and await self.find_by_key(new.network_class, new.idempotency_key):
            return None
        store, now = self._store, self._store.clock.now()
        request = Request(
            request_id=store.new_id(),
            network_class=new.network_class,
            stored=new.stored,
            intent=dict(new.intent),
            input_params=dict(new.input_params),
            resolved_bindings=dict(new.resolved_bindings),
            compiled_plan_hash=new.compiled_plan_hash,
            approval_digest=new.approval_digest,
            requested_by=new.requested_by,
            expires_at=now + timedelta(seconds=new.ttl_seconds),
            created_at=now,
            place=len(store.requests),
            idempotency_key=new.idempotency_key,
            body_hash=new.body_hash,
            callback_url=new.callback_url,
        )
        store.requests[request.request_id] = request
        for node in new.stored.plan.nodes:
            key = new.serialization_keys.get(node.node_key)
            row = Node(
                store.new_id(),
                request.request_id,
                node.node_key,
                node.node_kind,
                node.executor_key,
                key,
                updated_at=now,
            )
            store.nodes[row.node_id] = row
        store.deeds.append(Deed(new.requested_by, "create", request.request_id, {}))
        return InsertedRequest(request.request_id, request.expires_at)

    async def lock_request(self, request_id: str, network_class: str) -> LockedRequest:
        request = self._store.requests.get(request_id)
        if request is None or request.network_class != network_class:
            raise NotFound(f"there is no movement request {request_id!r} in network class {network_class}")
        return LockedRequest(
            request_id=request.request_id,
            network_class=request.network_class,
            request_state=request.request_state,
            intent=request.intent,
            input_params=request.input_params,
            resolved_bindings=request.resolved_bindings,
            compiled_plan_hash=request.compiled_plan_hash,
            approval_digest=request.approval_digest,
            expires_at=request.expires_at,
            expired=request.expires_at <= self._store.clock.now(),
            callback_url=request.callback_url,
            requested_by=request.requested_by,
            stored=request.stored,
            node_states=self._store.states(request_id),
            open_attempts=self._open_attempts(request_id),
            approved_by=tuple(
                deed.actor
                for deed in self._store.deeds
                if deed.request_id == request_id and deed.approval == "approved"
            ),
            down=(),
        )

    async def lock_expired(self, request_id: str, network_class: str) -> LockedRequest | None:
        request = await self.lock_request(request_id, network_class)
        return request if request.request_state is RequestState.PENDING_APPROVAL and request.expired else None

    async def read_request(self, request_id: str, network_class: str) -> LockedRequest:
        return await self.lock_request(request_id, network_class)

    def _open_attempts(self, request_id: str) -> dict[str, list[tuple[int, str]]]:
        found: dict[str, list[tuple[int, str]]] = {}
        for node in self._store.nodes_of(request_id):
            for number, attempt in self._store.attempts_of(node.node_id):
                if attempt.outcome not in _WITHOUT_EFFECT:
                    found.setdefault(node.node_key, []).append((number, attempt.outcome or "not known"))
        return found

    async def decide(self, request: LockedRequest, decision: Decision) -> None:
        if decision.state is not None:
            check_request_move(request.request_state, decision.state)
        for move in decision.moves:
            self._move(request, move)
        row = self._store.requests[request.request_id]
        if decision.state is not None:
            self._store.move_request(row, decision.state)
        if decision.frontier is not None:
            row.frontier = tuple(decision.frontier)
        deed = Deed(decision.actor, decision.action, request.request_id, decision.details, decision.approval)
        self._store.deeds.append(deed)
        if any(move.to_state is NodeState.READY for move in decision.moves):
            self._store.wake({"dispatch"})

    async def move_nodes(
        self,
        request: LockedRequest,
        keys: Sequence[str],
        state: NodeState,
        *,
        step_kind: StepKind,
        facts: Mapping[str, Any],
        actor: str | None = None,
        refs: Mapping[str, Any] | None = None,
    ) -> None:
        for key in keys:
            self._move(request, NodeMove(key, state, step_kind, facts, actor, refs or {}))
        if keys and state is NodeState.READY:
            self._store.wake({"dispatch"})

    def _move(self, request: LockedRequest, move: NodeMove) -> None:
        node = self._node(request, move.node_key)
        self._store.journal_move(node, move.to_state, move.step_kind, move.facts, actor=move.actor)
        node.provider_refs = {**node.provider_refs, **move.refs}
        _take_over(node)
        node.next_look_at = None

    async def set_request_state(
        self, request: LockedRequest, state: RequestState, *, frontier: Sequence[str] | None = None
    ) -> None:
        check_request_move(request.request_state, state)
        row = self._store.requests[request.request_id]
        self._store.move_request(row, state)
        row.frontier = tuple(frontier) if frontier is not None else row.frontier

    async def advance_frontier(self, request: LockedRequest, frontier: Sequence[str], *, after: str) -> None:
        assert after in request.node_states
        self._store.requests[request.request_id].frontier = tuple(frontier)

    async def wake(self, *kinds: str) -> None:
        self._store.wake(kinds)

    # -- what exists already

    def _node(self, request: LockedRequest, node_key: str) -> Node:
        [node] = [each for each in self._store.nodes_of(request.request_id) if each.node_key == node_key]
        return node

    async def find_node(self, request: LockedRequest, node_key: str) -> FoundNode:
        node = self._node(request, node_key)
        worked = node.runner_id in self._store.alive
        return FoundNode(node.node_id, node.node_state, node.attempt_no, node.claim_epoch, worked)

    async def lock_node(self, node_id: str) -> None:
        assert node_id in self._store.nodes

    async def holder_of(self, node_id: str, refs: Mapping[str, Any], identifying: Sequence[str]) -> str | None:
        things = [(name, refs[name]) for name in identifying if refs.get(name)]
        for other in self._store.nodes.values():
            if other.node_id == node_id or other.node_kind is not NodeKind.ACTION:
                continue
            known = [
                other.provider_refs,
                *(a.prepared.provider_refs for _, a in self._store.attempts_of(other.node_id)),
            ]
            if any(each.get(name) == value for each in known for name, value in things):
                return f"{other.node_key} of movement {other.request_id}"
        return None

    async def nonce_in_the_way(self, node_id: str, nonce: str | None) -> int | None:
        assert node_id in self._store.nodes
        assert nonce is None, "no nonces are kept in memory"
        return None

    async def write_adoption(self, adoption: Adoption) -> None:
        store, node, now = self._store, self._store.nodes[adoption.node_id], self._store.clock.now()
        if node.node_state is NodeState.READY:
            node.attempt_no, node.started_at = node.attempt_no + 1, node.started_at or now
            node.provider_refs = {}
            store.attempts[node.node_id, node.attempt_no] = Attempt(adoption.idempotency_key, adoption.prepared, now)
            store.journal_move(node, NodeState.SUBMITTING, StepKind.OPERATOR, adoption.facts, actor=adoption.actor)
        step = store.journal_move(node, NodeState.SUBMITTED, StepKind.OPERATOR, adoption.facts, actor=adoption.actor)
        node.provider_refs = {**node.provider_refs, **adoption.refs}
        assert ADOPTED_REF in node.provider_refs
        node.error_code = node.error_message = node.facts_digest = None
        node.looks, node.next_look_at, node.submitted_at = 0, now, node.submitted_at or now
        _take_over(node)
        attempt = store.attempts[node.node_id, node.attempt_no]
        accepted = dataclasses.replace(attempt, outcome=AttemptOutcome.ACCEPTED, outcome_step=step)
        store.attempts[node.node_id, node.attempt_no] = accepted


def _take_over(node: Node) -> None:
    node.runner_id = node.in_flight_key = None
    node.claim_epoch += 1
