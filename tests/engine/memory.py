"""The engine's store in memory, by the same rules as PostgreSQL's, on a clock that the test moves.

Every call runs from its beginning to its end without giving way, so it is atomic as a statement is. What the database
refuses by a guard or a unique index is refused here by an error before anything has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Self

from qtg_dagster.domain.canonical import digest
from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.plans import NodeKind
from qtg_dagster.domain.progress import Advance
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.requests import StandingRequest, StoredPlan
from qtg_dagster.domain.states import (
    DISPATCHABLE_REQUEST_STATES,
    EVIDENCED_NODE_STATES,
    NodeState,
    RequestState,
    check_node_move,
    check_request_move,
)
from qtg_dagster.domain.velocity import VelocityLimit
from qtg_dagster.domain.work import Claim, Intent, Move, RecoveryArm, Sibling, Work, consequences
from qtg_dagster.domain.workers import Backlog, Claimant, RunnerIdentity
from tests.engine.memory_decisions import MemoryDecisions, all_or_nothing, standing_of
from tests.engine.memory_pending import MemoryPending
from tests.engine.memory_rows import Attempt, Deed, Node, Request, Step, TestClock, observed_since

_KEEPS_KEY = frozenset({NodeState.SUBMITTING, NodeState.UNKNOWN})
_LOOKED_AT = frozenset({NodeState.SUBMITTED, NodeState.OBSERVING})
_UNCERTAIN = frozenset({NodeState.UNKNOWN, NodeState.SUBMITTING})
_WAKES = {NodeState.SUBMITTED: "observe", NodeState.UNKNOWN: "recover", NodeState.READY: "dispatch"}


class Away(OSError):
    """The store cannot be reached."""


class MemoryRunner:
    """Lives from the beginning of its block to its end, or until it is killed."""

    def __init__(self, store: MemoryStore, identity: RunnerIdentity) -> None:
        self._store = store
        self.identity = identity
        self.runner_id = 0
        self.first = asyncio.Event()  # in the line for its slot

    async def __aenter__(self) -> Self:
        self.runner_id = next(self._store.runner_ids)
        self._store.alive[self.runner_id] = self
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Its session is gone, whatever the process still believes."""
        self._store.alive.pop(self.runner_id, None)
        for line in self._store.lines.values():
            while line and line[0].runner_id not in self._store.alive:
                line.popleft()
            if line:
                line[0].first.set()

    def check(self) -> None:
        if self.runner_id not in self._store.alive:
            raise StaleClaim(f"runner {self.runner_id} lost the session that holds its lock")

    async def take_slot(self, overdue_seconds: float) -> None:  # noqa: ARG002 - nobody hangs here
        self.check()
        self._line.append(self)
        self._line[0].first.set()
        await self.first.wait()
        self.check()

    async def successor_waits(self) -> bool:
        self.check()
        return any(each.runner_id in self._store.alive for each in self._line if each is not self)

    @property
    def _line(self) -> deque[MemoryRunner]:
        """Who has the slot, and who waits for it."""
        slot = (self.identity.network_class, self.identity.kind, self.identity.slot)
        return self._store.lines.setdefault(slot, deque())


class MemoryWakeups:
    """Sets its event whenever a write made work of its kind."""

    def __init__(self, listeners: set[MemoryWakeups], kind: str) -> None:
        self._listeners = listeners
        self.kind = kind
        self.event = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._listeners.add(self)
        self.event.set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listeners.discard(self)


class MemoryStore(MemoryPending):
    """What `engine.ports.Store` asks for, in this process."""

    failures: tuple[type[Exception], ...] = (Away,)

    def __init__(self, clock: TestClock | None = None) -> None:
        self.clock = clock or TestClock()
        self.requests: dict[str, Request] = {}
        self.nodes: dict[str, Node] = {}
        self.attempts: dict[tuple[str, int], Attempt] = {}
        self.journal: list[Step] = []
        self.plans: dict[str, list[StoredPlan]] = {}
        self.deeds: list[Deed] = []
        self.tombstones: dict[tuple[str, str], StandingRequest] = {}
        self.alive: dict[int, MemoryRunner] = {}
        self.lines: dict[tuple[str, str, int], deque[MemoryRunner]] = {}
        self.runner_ids = itertools.count(1)
        self.beats: list[tuple[str, str, float, int, BaseException | None]] = []
        self._listeners: set[MemoryWakeups] = set()
        self._ids = itertools.count(1)

    def forget(self, request_id: str) -> None:
        """Delete a movement's rows; what its key belongs to stays known."""
        gone = self.requests.pop(request_id)
        if gone.idempotency_key is not None:
            self.tombstones[gone.network_class, gone.idempotency_key] = standing_of(gone)
        self.nodes = {key: node for key, node in self.nodes.items() if node.request_id != request_id}

    # -- who works, and what wakes them

    def runner(self, identity: RunnerIdentity) -> MemoryRunner:
        return MemoryRunner(self, identity)

    def wakeups(self, kind: str) -> MemoryWakeups:
        return MemoryWakeups(self._listeners, kind)

    def wake(self, kinds: Iterable[str]) -> None:
        for listener in self._listeners:
            if listener.kind in kinds:
                listener.event.set()

    def is_transient(self, error: Exception) -> bool:
        return isinstance(error, Away)

    def session(self) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    async def beat(
        self, network_class: str, worker: str, *, duration_ms: float, items: int, error: BaseException | None = None
    ) -> None:
        self.beats.append((network_class, worker, duration_ms, items, error))

    async def count_backlog(self, network_class: str, *, horizon_seconds: float = 0) -> Backlog:
        horizon = self.clock.now() + timedelta(seconds=horizon_seconds)

        def soon(node: Node) -> bool:
            return node.next_look_at is None or node.next_look_at <= horizon

        here = [node for node in self.nodes.values() if self.requests[node.request_id].network_class == network_class]
        going = [n for n in here if self.requests[n.request_id].request_state is RequestState.EXECUTING]
        return Backlog(
            dispatch=sum(self._may_begin(node) and soon(node) for node in here),
            observe=sum(node.node_state in _LOOKED_AT and soon(node) for node in going),
            recover=sum(
                node.node_state is NodeState.SUBMITTING or (node.node_state is NodeState.UNKNOWN and soon(node))
                for node in going
            ),
        )

    # -- claims

    async def claim_ready(self, runner: Claimant, batch: int) -> list[Claim]:
        candidates = [
            node
            for node in self._claimable(runner)
            if self._may_begin(node) and not self._key_is_taken(node) and self._due(node)
        ]
        first_of_key = {node.serialization_key or node.node_id: node for node in reversed(candidates[: batch * 2 + 16])}
        picked = [node for node in candidates if first_of_key.get(node.serialization_key or node.node_id) is node]
        claims = self._claim(runner, picked[:batch])
        for node in self._claimable(runner):  # of a movement that begins nothing any more
            if node.node_state is NodeState.READY and node.in_flight_key and not self._may_begin(node):
                self._give_back(node, 0)
        return claims

    async def claim_due_observations(self, runner: Claimant, batch: int) -> list[Claim]:
        due = [
            node
            for node in self._claimable(runner)
            if node.node_state in _LOOKED_AT and self._goes_on(node) and self._due(node)
        ]
        return self._claim(runner, due[:batch])

    async def claim_recoverable(
        self, runner: Claimant, arm: RecoveryArm, batch: int, *, graces: Mapping[str, float], default_grace: float
    ) -> list[Claim]:
        def left_alone(node: Node) -> bool:
            grace = timedelta(seconds=graces.get(node.executor_key or "", default_grace))
            return node.node_state is NodeState.UNKNOWN or node.updated_at <= self.clock.now() - grace

        lost = [
            node
            for node in self._claimable(runner)
            if node.node_state in _UNCERTAIN
            and left_alone(node)
            and self._goes_on(node)
            and self._due(node)
            and (node.executor_key or "").startswith(arm.lanes)
            and not (arm.other_lanes and (node.executor_key or "").startswith(arm.other_lanes))
        ]
        return self._claim(runner, sorted(lost, key=lambda node: (node.updated_at, node.node_id))[:batch])

    async def release(self, claims: Sequence[Claim], *, delay_seconds: float = 0) -> None:
        for claim in claims:
            node = self.nodes[claim.node_id]
            if self._holds(claim, node):
                self._give_back(node, delay_seconds)

    async def release_forgotten(self, runner_id: int, in_work: Collection[str], *, delay_seconds: float = 0) -> int:
        held = [
            node
            for node in self.nodes.values()
            if node.runner_id == runner_id
            and node.node_id not in in_work
            and node.node_state in {NodeState.READY, *_LOOKED_AT, *_UNCERTAIN}
        ]
        for node in held:
            self._give_back(node, delay_seconds)
            node.claim_epoch += 1
        return len(held)

    def _claimable(self, runner: Claimant) -> list[Node]:
        """Of the runner's network class and held by nobody who lives, oldest movement first."""
        free = [
            node
            for node in self.nodes.values()
            if self.requests[node.request_id].network_class == runner.identity.network_class
            and (node.runner_id is None or (node.runner_id != runner.runner_id and node.runner_id not in self.alive))
        ]
        return sorted(free, key=lambda node: (self.requests[node.request_id].place, node.node_id))

    def _claim(self, runner: Claimant, nodes: Sequence[Node]) -> list[Claim]:
        for node in nodes:
            node.runner_id, node.claim_epoch = runner.runner_id, node.claim_epoch + 1
            if node.node_state is NodeState.READY:
                node.in_flight_key = node.serialization_key
            node.updated_at = self.clock.now()
        return [
            Claim(node.node_id, node.request_id, runner.runner_id, node.claim_epoch, node.node_state) for node in nodes
        ]

    def _give_back(self, node: Node, delay_seconds: float) -> None:
        node.runner_id, node.updated_at = None, self.clock.now()
        if delay_seconds > 0:
            node.next_look_at = self.clock.now() + timedelta(seconds=delay_seconds)
        if node.node_state is NodeState.READY:
            node.in_flight_key = None

    def _due(self, node: Node) -> bool:
        return node.next_look_at is None or node.next_look_at <= self.clock.now()

    def _goes_on(self, node: Node) -> bool:
        return self.requests[node.request_id].request_state is RequestState.EXECUTING

    def _begins_nodes(self, request_id: str) -> bool:
        return (
            self.requests[request_id].request_state in DISPATCHABLE_REQUEST_STATES
            and NodeState.FAILED not in self.states(request_id).values()
        )

    def _may_begin(self, node: Node) -> bool:
        return (
            node.node_state is NodeState.READY
            and node.node_kind is not NodeKind.MANUAL
            and self._begins_nodes(node.request_id)
        )

    def _key_is_taken(self, node: Node) -> bool:
        key = node.serialization_key
        return key is not None and any(n.in_flight_key == key and n is not node for n in self.nodes.values())

    def _holds(self, claim: Claim, node: Node) -> bool:
        return (node.runner_id, node.claim_epoch) == (claim.runner_id, claim.claim_epoch)

    # -- people

    @contextlib.asynccontextmanager
    async def deciding(self, transaction: None = None) -> AsyncIterator[MemoryDecisions]:
        assert transaction is None, "a caller has no transaction of its own here"
        with all_or_nothing(self):
            yield MemoryDecisions(self)

    # -- works

    def attempts_of(self, node_id: str) -> list[tuple[int, Attempt]]:
        return [(number, attempt) for (of, number), attempt in self.attempts.items() if of == node_id]

    def nodes_of(self, request_id: str) -> list[Node]:
        return [node for node in self.nodes.values() if node.request_id == request_id]

    def states(self, request_id: str) -> dict[str, NodeState]:
        return {node.node_key: node.node_state for node in self.nodes_of(request_id)}

    async def load_works(self, claims: Sequence[Claim]) -> list[Work]:
        return [self._work(claim, self.nodes[claim.node_id]) for claim in claims if claim.node_id in self.nodes]

    def _work(self, claim: Claim, node: Node) -> Work:
        request = self.requests[node.request_id]
        attempt = self.attempts.get((node.node_id, node.attempt_no))
        return Work(
            claim=claim,
            request_state=request.request_state,
            intent=request.intent,
            input_params=request.input_params,
            resolved_bindings=request.resolved_bindings,
            compiled_plan_hash=request.compiled_plan_hash,
            approval_digest=request.approval_digest,
            approved_at=request.approved_at,
            template_version=request.stored.version,
            plan=request.stored.plan,
            node=request.stored.plan.node(node.node_key),
            node_state=node.node_state,
            attempt_no=node.attempt_no,
            provider_refs=dict(node.provider_refs),
            looks=node.looks,
            error_code=node.error_code,
            facts_digest=node.facts_digest,
            started_at=node.started_at,
            observed_since=observed_since(attempt),
            submitted_at=node.submitted_at,
            database_now=self.clock.now(),
            siblings={
                each.node_key: Sibling(each.node_state, dict(each.provider_refs), dict(each.artifacts))
                for each in self.nodes_of(node.request_id)
            },
            prepared=attempt.prepared if attempt else None,
        )

    async def velocity_limits(self, network_class: str) -> list[VelocityLimit]:  # noqa: ARG002 - the port's
        return []  # the database keeps them, and nothing else could

    async def record_intents(self, intents: Sequence[tuple[Work, Intent]]) -> list[bool]:
        written = []
        for work, intent in intents:
            try:
                await self.record_intent(work, intent)
            except StaleClaim:
                written.append(False)
            else:
                written.append(True)
        return written

    async def record_intent(self, work: Work, intent: Intent) -> None:
        node, request = self.nodes[work.claim.node_id], self.requests[work.claim.request_id]
        if intent.prepared.nonce_reservation is not None:
            raise NotImplementedError("no nonces are kept in memory")
        ours = node.node_state is NodeState.READY and self._holds(work.claim, node)
        if not ours or not self._begins_nodes(request.request_id):
            raise StaleClaim(f"node {node.node_id} is no longer ours to submit")
        if any(intent.idempotency_key == attempt.idempotency_key for attempt in self.attempts.values()):
            raise AssertionError(f"a second attempt under the key {intent.idempotency_key}")
        now = self.clock.now()
        node.attempt_no, node.started_at = intent.attempt_no, node.started_at or now
        node.provider_refs, node.looks, node.next_look_at = dict(intent.prepared.provider_refs), 0, None
        node.error_code = node.error_message = None
        self.attempts[node.node_id, node.attempt_no] = Attempt(intent.idempotency_key, intent.prepared, now)
        facts = {"payload_hash": intent.prepared.payload_hash}
        self.journal_move(node, NodeState.SUBMITTING, StepKind.INTENT, facts, claim=work.claim)
        if request.request_state is RequestState.APPROVED:
            self.move_request(request, RequestState.EXECUTING)

    async def record_moves(self, moves: Sequence[tuple[Work, Move]]) -> list[Advance | StaleClaim]:
        for work, move in moves:
            if move.to_state is not work.node_state:
                check_node_move(work.node_state, move.to_state)
        return [self._record(work, move) for work, move in moves]

    def _record(self, work: Work, move: Move) -> Advance | StaleClaim:
        claim, node = work.claim, self.nodes[work.claim.node_id]
        request = self.requests[claim.request_id]
        if node.node_state is not work.node_state or not self._holds(claim, node):
            self._journal_fenced(node, claim, move)
            return StaleClaim(f"node {claim.node_id} was taken over; its {move.step_kind} changed nothing")
        found = consequences(work, move, request.request_state, self.states(request.request_id))
        facts = redact(dict(move.facts))
        facts_digest = digest("qtg.facts.v1", {"state": move.to_state, "facts": facts})
        again = node.node_state is move.to_state and node.error_code == move.error_code
        step = None
        if move.to_state is not work.node_state or facts_digest != work.facts_digest:
            step = self.journal_move(node, move.to_state, move.step_kind, facts, claim=claim)
        self._settle(node, move, facts_digest, looks=node.looks + 1 if again else 0)
        attempt = self.attempts.get((node.node_id, node.attempt_no))
        if move.attempt_outcome is not None and attempt is not None:
            attempt.outcome, attempt.outcome_step = move.attempt_outcome, step
        for key in found.ready:
            [readied] = [each for each in self.nodes_of(request.request_id) if each.node_key == key]
            self.journal_move(readied, NodeState.READY, StepKind.READIED, {"after": node.node_key})
        if found.ready:
            request.frontier = found.ready
        if found.request_state is not None:
            self.move_request(request, found.request_state)
        changed = move.to_state is not work.node_state and move.to_state in _WAKES
        freed = node.serialization_key is not None and node.in_flight_key is None
        self.wake(({_WAKES[move.to_state]} if changed else set()) | ({"dispatch"} if found.ready or freed else set()))
        return found

    def _settle(self, node: Node, move: Move, facts_digest: str, *, looks: int) -> None:
        now = self.clock.now()
        node.provider_refs = {**node.provider_refs, **move.provider_refs}
        node.artifacts = {**node.artifacts, **move.artifacts}
        node.error_code, node.error_message = move.error_code, move.error_message
        node.facts_digest, node.looks = facts_digest, looks
        node.next_look_at = None if move.look_after is None else now + timedelta(seconds=move.look_after)
        node.runner_id, node.updated_at = None, now
        if move.to_state not in _KEEPS_KEY:
            node.in_flight_key = None
        if move.to_state is NodeState.SUBMITTED:
            node.submitted_at = node.submitted_at or now

    def _journal_fenced(self, node: Node, claim: Claim, move: Move) -> None:
        facts = {"would_be": move.to_state, "facts": redact(dict(move.facts))}
        self.journal.append(
            Step(
                node.node_id,
                node.attempt_no,
                StepKind.FENCED,
                None,
                None,
                facts,
                self.clock.now(),
                claim.runner_id,
                claim.claim_epoch,
            )
        )

    # -- what the guards and triggers do

    def journal_move(
        self,
        node: Node,
        to_state: NodeState,
        kind: StepKind,
        facts: Mapping[str, Any],
        *,
        claim: Claim | None = None,
        actor: str | None = None,
    ) -> Step:
        """Move a node, legally, and write it down; the row proves the states that need proof."""
        changed = to_state is not node.node_state
        if changed:
            check_node_move(node.node_state, to_state)
        step = Step(
            node.node_id,
            node.attempt_no,
            kind,
            node.node_state,
            to_state if changed else None,
            facts,
            self.clock.now(),
            claim.runner_id if claim else None,
            claim.claim_epoch if claim else None,
            actor,
        )
        self.journal.append(step)
        if changed:
            node.node_state, node.state_version = to_state, node.state_version + 1
        node.updated_at = self.clock.now()
        if to_state in EVIDENCED_NODE_STATES:
            node.evidence = step
        return step

    def move_request(self, request: Request, state: RequestState) -> None:
        check_request_move(request.request_state, state)
        request.request_state = state
        if state is RequestState.APPROVED:
            request.approved_at = self.clock.now()

    def new_id(self) -> str:
        return str(uuid.UUID(int=next(self._ids)))
