"""What the engine needs of the place where it keeps what it must not forget.

Whoever has these methods is a store: PostgreSQL in production (`store.postgres`), memory in the tests. A call that
writes is atomic: it takes effect as a whole or not at all, and has when it returns. One that raises one of `failures`
may have taken effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.progress import Advance
from qtg_dagster.domain.requests import (
    Adoption,
    Decision,
    FoundNode,
    InsertedRequest,
    LockedRequest,
    NewRequest,
    Publisher,
    StandingRequest,
    StoredPlan,
)
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.domain.velocity import VelocityLimit
from qtg_dagster.domain.work import Claim, Intent, Move, RecoveryArm, Work
from qtg_dagster.domain.workers import Backlog, Claimant, RunnerIdentity

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from qtg_dagster.store.database import Database, Transaction


class Runner(Claimant, Protocol):
    """A registered worker process; its claims are free for others as soon as it is gone. An async context manager."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def take_slot(self, overdue_seconds: float) -> None:
        """Wait until no other runner of this kind works, and be the one; raises `StaleClaim` for one that is gone.

        Another that has been silent for that long is not waited for.
        """
        ...

    async def successor_waits(self) -> bool:
        """Whether another waits to be the one; raises `StaleClaim` for one that is gone."""
        ...


class Wakeups(Protocol):
    """Sets `event` when there may be work, while its block runs: a hint, never the truth."""

    event: asyncio.Event

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Claims(Protocol):
    """Who works on which node: one runner at a time, until it gives the node back, moves it or is gone."""

    async def claim_ready(self, runner: Claimant, batch: int) -> list[Claim]:
        """Up to `batch` READY nodes, oldest movement first, one a serialization key, none of a failed movement."""
        ...

    async def claim_due_observations(self, runner: Claimant, batch: int) -> list[Claim]:
        """Up to `batch` SUBMITTED or OBSERVING nodes whose next look is due, oldest movement first."""
        ...

    async def claim_recoverable(
        self, runner: Claimant, arm: RecoveryArm, batch: int, *, graces: Mapping[str, float], default_grace: float
    ) -> list[Claim]:
        """Up to `batch` nodes of one arm that are UNKNOWN, or SUBMITTING for longer than their executor's grace.

        `graces` is executor key -> seconds. Longest untouched first.
        """
        ...

    async def release(self, claims: Sequence[Claim], *, delay_seconds: float = 0) -> None:
        """Give nodes back as they are, not to be claimed before the delay is over; stale claims give nothing back."""
        ...

    async def release_forgotten(self, runner_id: int, in_work: Collection[str], *, delay_seconds: float = 0) -> int:
        """Give back all that a runner holds but the node ids in `in_work`; returns how many."""
        ...


class Works(Protocol):
    """What a runner knows of the nodes that it has claimed, and what it writes about them."""

    async def load_works(self, claims: Sequence[Claim]) -> list[Work]:
        """The work of each claim, in their order; one that cannot be read is left out."""
        ...

    async def record_intents(self, intents: Sequence[tuple[Work, Intent]]) -> list[bool]:
        """READY -> SUBMITTING of nodes of different movements, durable when this returns; says of each whether it was.

        Waits for nobody: one whose movement is held at this moment is not written, and nor is one that is not ours.
        Raises `RiskControlViolated`, with none written, when one of them would leave a velocity limit.
        """
        ...

    async def record_intent(self, work: Work, intent: Intent) -> None:
        """The same for one node, as soon as its movement is free; raises `StaleClaim` when it is not ours to submit."""
        ...

    async def record_moves(self, moves: Sequence[tuple[Work, Move]]) -> list[Advance | StaleClaim]:
        """Moves of nodes of different movements: each one's consequences, or why it was fenced.

        A fenced move changes nothing and is on record. Raises `IllegalMove`.
        """
        ...


class Requests(Protocol):
    """Movements, within one transaction."""

    async def publish_plan(self, plan: Plan, *, by: Publisher | None = None) -> StoredPlan:
        """The plan as its template's newest version; the same plan again is the version that stands.

        A new version is audited as published by somebody, unless the caller's own entry says who did it.
        """
        ...

    async def find_plan(self, template_key: str, version: int | None = None) -> StoredPlan | None:
        """The given version of a template, or its newest; None when there is none in use."""
        ...

    async def require_plan(self, template_key: str, version: int | None = None) -> StoredPlan:
        """The given version of a template, or its newest; raises `InvalidInput`."""
        ...

    async def find_by_key(self, network_class: str, key: str) -> StandingRequest | None:
        """The movement that an idempotency key belongs to, for good: its rows may be deleted, the key is not free."""
        ...

    async def insert_request(self, new: NewRequest) -> InsertedRequest | None:
        """A movement with its BLOCKED nodes, audited; None when its idempotency key is taken."""
        ...

    async def lock_request(self, request_id: str, network_class: str) -> LockedRequest:
        """A movement that nobody else moves until the transaction ends; raises `NotFound`."""
        ...

    async def lock_expired(self, request_id: str, network_class: str) -> LockedRequest | None:
        """A movement whose approval window has closed undecided, locked; None when it is not, or somebody holds it."""
        ...

    async def read_request(self, request_id: str, network_class: str) -> LockedRequest:
        """The same without the lock, to be shown: nothing may be decided on it."""
        ...


class Decided(Protocol):
    """What becomes of a locked movement by a person's decision, within the transaction that locked it."""

    async def decide(self, request: LockedRequest, decision: Decision) -> None:
        """Moves, journal, approval, callbacks and audit of one decision; raises `IllegalMove`.

        The last word of its transaction: one of the store's own commits with it.
        """
        ...

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
        """The same step of several nodes; whoever held a claim on one finds it taken over."""
        ...

    async def set_request_state(
        self, request: LockedRequest, state: RequestState, *, frontier: Sequence[str] | None = None
    ) -> None:
        """Move the movement itself and tell its owner; raises `IllegalMove`."""
        ...

    async def advance_frontier(self, request: LockedRequest, frontier: Sequence[str], *, after: str) -> None:
        """The nodes that the movement has come to, told to its owner."""
        ...

    async def wake(self, *kinds: str) -> None:
        """Let the drains of these kinds look at once when the transaction commits."""
        ...


class Adoptions(Protocol):
    """Attaching what exists already to a node, within the transaction that locked its movement."""

    async def find_node(self, request: LockedRequest, node_key: str) -> FoundNode:
        """The node as it stands now."""
        ...

    async def lock_node(self, node_id: str) -> None:
        """Hold a node against claims."""
        ...

    async def holder_of(self, node_id: str, refs: Mapping[str, Any], identifying: Sequence[str]) -> str | None:
        """Which other node has the thing that these refs name; nobody else adopts it until the transaction ends."""
        ...

    async def nonce_in_the_way(self, node_id: str, nonce: str | None) -> int | None:
        """A nonce above `nonce` that was signed for this node: it would be left to nobody."""
        ...

    async def write_adoption(self, adoption: Adoption) -> None:
        """READY or UNKNOWN -> SUBMITTED by adoption; whoever held a claim finds it taken over."""
        ...


class Decisions(Requests, Decided, Adoptions, Protocol):
    """One transaction: all that is decided in it is written, or nothing."""


class Pending(Protocol):
    """Movements that wait for approval, decided on without holding them."""

    async def read_request(self, request_id: str, network_class: str) -> LockedRequest:
        """A movement as it stands, held by nobody; raises `NotFound`."""
        ...

    async def decide_pending(self, request: LockedRequest, decision: Decision) -> bool:
        """As `Decided.decide`, in a transaction of its own and only if the movement still waits; says whether it did.

        One whose window has passed does not wait any more.
        """
        ...

    async def find_expired(self, network_class: str, batch: int, *, but: Collection[str] = ()) -> list[str]:
        """Up to `batch` ids of movements whose window closed undecided, longest over first; none that is in `but`."""
        ...


class Runners(Protocol):
    """Who works, and what wakes them."""

    def runner(self, identity: RunnerIdentity) -> Runner:
        """A runner, registered while its block runs."""
        ...

    def wakeups(self, kind: str) -> Wakeups:
        """Word of commits that made work of this kind."""
        ...


class Store(Claims, Works, Pending, Runners, Protocol):
    """All that the engine needs."""

    def deciding(self, transaction: Transaction | None = None) -> AbstractAsyncContextManager[Decisions]:
        """The caller's own transaction, which stays the caller's to commit; or one that commits with the block."""
        ...

    async def velocity_limits(self, network_class: str) -> list[VelocityLimit]:
        """The limits that stand, each with what of it is used up today."""
        ...

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What a store raises when it fails or cannot be reached."""
        ...

    @property
    def database(self) -> Database:
        """Where people's decisions are written."""
        ...

    def session(self) -> AbstractAsyncContextManager[AsyncSession | None]:
        """A session for an executor that keeps something of its own in the store; None where there is none."""
        ...

    def is_transient(self, error: Exception) -> bool:
        """Whether the same call may succeed a moment later."""
        ...

    async def count_backlog(self, network_class: str, *, horizon_seconds: float = 0) -> Backlog:
        """Nodes that wait, now or within the horizon."""
        ...

    async def beat(
        self,
        network_class: str,
        worker: str,
        *,
        duration_ms: float,
        items: int,
        error: BaseException | None = None,
    ) -> None:
        """One pass of a worker, failed when `error` is given."""
        ...
