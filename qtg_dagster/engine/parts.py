"""What the engine works with, given by the composition root."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from qtg_dagster.domain.actions import ADOPTING_NODE_STATES
from qtg_dagster.domain.clock import Clock, SystemClock
from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.progress import Advance
from qtg_dagster.domain.receivers import Resolver
from qtg_dagster.domain.work import Intent, Move, Work
from qtg_dagster.engine.persist import RETRY_DELAYS, Recorder
from qtg_dagster.engine.ports import Store
from qtg_dagster.engine.velocity import VelocityWatch
from qtg_dagster.executors.contract import Executor, UsesSession
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from qtg_dagster.store.database import Database


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine's dependencies, none of them global."""

    store: Store
    settings: Settings
    inventory: Inventory
    executors: ExecutorRegistry
    signers: SignerRegistry
    clock: Clock = field(default_factory=SystemClock)
    resolver: Resolver | None = None  # looks receivers' names up; without one, delivery alone judges their addresses
    intents: Recorder[Intent, bool] = field(init=False)
    outcomes: Recorder[Move, Advance] = field(init=False)
    velocity: VelocityWatch = field(init=False)

    def __post_init__(self) -> None:
        # An intent is not tried again: its node is, by whoever claims it next.
        object.__setattr__(self, "intents", Recorder(self.store.record_intents, self.store.is_transient))
        outcomes = Recorder(self._record_moves, self.store.is_transient, RETRY_DELAYS)
        object.__setattr__(self, "outcomes", outcomes)
        object.__setattr__(self, "velocity", VelocityWatch(self.store, self.settings.network_class))

    async def _record_moves(self, moves: Sequence[tuple[Work, Move]]) -> Sequence[Advance | StaleClaim]:
        """With what the executors alone know: which nodes can adopt, if this is where a person is asked to come."""
        return await self.store.record_moves([(work, self._with_adopting(work, move)) for work, move in moves])

    def _with_adopting(self, work: Work, move: Move) -> Move:
        if move.to_state not in ADOPTING_NODE_STATES:
            return move
        able = self.executors.adopting
        return replace(move, adopting=frozenset(node.node_key for node in work.plan.nodes if node.executor_key in able))

    @property
    def database(self) -> Database:
        """Where people's decisions are written."""
        return self.store.database

    def session_for(self, executor: Executor) -> AbstractAsyncContextManager[AsyncSession | None]:
        """A session for an executor that keeps something of its own in the store, None for the others."""
        asks = isinstance(executor, UsesSession) and executor.uses_session
        return self.store.session() if asks else nullcontext()
