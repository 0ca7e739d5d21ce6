"""Places where the steps of a process wait until the test lets them go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.progress import Advance
from qtg_dagster.domain.work import Claim, Intent, Move, RecoveryArm, Work
from qtg_dagster.domain.workers import Claimant
from tests.engine.grounds import Ground

T = TypeVar("T")


class Point(StrEnum):
    """A boundary between two steps of a process."""

    CLAIM = "about to claim"
    CLAIMED = "claimed, and told so"
    INTENT = "about to write the intent"
    SUBMIT = "the call is about to be executed"
    LOOK = "the question is about to be answered"
    ANSWER = "the answer is on its way"
    RECORD = "about to write the outcome"
    RELEASE = "about to give the claim back"


class Loss(StrEnum):
    """What a lost connection to the store does to a call."""

    BEFORE = "the call is lost"
    AFTER = "the call has its effect, and its answer is lost"


class Death(BaseException):
    """The process is gone: nothing after this line happens."""


@dataclass
class Waiting:
    """One step that waits."""

    point: Point
    node_id: str
    told: asyncio.Future[Any]


@dataclass
class Gate:
    """The gate of one process. An open one lets everything through; a dead one nothing."""

    opened: bool = False
    dead: bool = False
    waiting: list[Waiting] = field(default_factory=list)
    busy: int = 0  # calls to the store that are under way
    problems: list[str] = field(default_factory=list)  # what a store should not have done

    async def wait(self, point: Point, node_id: str = "") -> Any:
        """What the step is told when it may go on; None for nothing special."""
        if self.dead:
            raise Death
        if self.opened:
            return None
        step = Waiting(point, node_id, asyncio.get_running_loop().create_future())
        self.waiting.append(step)
        return await step.told

    def let_go(self, step: Waiting, told: Any = None) -> None:
        self.waiting.remove(step)
        step.told.set_result(told)

    def open(self) -> None:
        self.opened = True
        for step in list(self.waiting):
            self.let_go(step)


async def settle(*gates: Gate) -> None:
    """Return when nothing goes on any more without being let."""
    calm = 0
    while calm < 25:
        busy = any(gate.busy for gate in gates)
        await asyncio.sleep(0.0005 if busy else 0)
        calm = 0 if busy else calm + 1


class GatedStore:
    """A process's store: each write waits at its gate, and may be told to lose its connection."""

    def __init__(self, ground: Ground, gate: Gate) -> None:
        self._ground = ground
        self._store = ground.store
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def _call(self, point: Point, node_id: str, call: Awaitable[T]) -> T:
        try:
            told = await self._gate.wait(point, node_id)
        except BaseException:
            call.close()  # type: ignore[attr-defined]
            raise
        if told is Loss.BEFORE:
            call.close()  # type: ignore[attr-defined]
            raise self._ground.away
        found = await self._at_once(call)
        if told is Loss.AFTER:
            raise self._ground.away
        return found

    async def claim_ready(self, runner: Claimant, batch: int) -> list[Claim]:
        return await self._claimed(self._store.claim_ready(runner, batch))

    async def claim_due_observations(self, runner: Claimant, batch: int) -> list[Claim]:
        return await self._claimed(self._store.claim_due_observations(runner, batch))

    async def claim_recoverable(
        self, runner: Claimant, arm: RecoveryArm, batch: int, *, graces: Mapping[str, float], default_grace: float
    ) -> list[Claim]:
        claims = self._store.claim_recoverable(runner, arm, batch, graces=graces, default_grace=default_grace)
        if arm.name != "rest":  # no node of the model is of another arm
            claims.close()  # type: ignore[attr-defined]
            return []
        return await self._claimed(claims)

    async def _claimed(self, call: Awaitable[list[Claim]]) -> list[Claim]:
        claims = await self._call(Point.CLAIM, "", call)
        if claims:
            await self._gate.wait(Point.CLAIMED)
        return claims

    async def load_works(self, claims: Sequence[Claim]) -> list[Work]:
        return await self._at_once(self._store.load_works(claims))

    async def release_forgotten(self, runner_id: int, in_work: Collection[str], *, delay_seconds: float = 0) -> int:
        return await self._at_once(self._store.release_forgotten(runner_id, in_work, delay_seconds=delay_seconds))

    async def beat(self, *_: object, **__: object) -> None:
        """The model has no use for it."""

    async def _at_once(self, call: Awaitable[T]) -> T:
        self._gate.busy += 1
        try:
            return await call
        finally:
            self._gate.busy -= 1

    async def record_intents(self, intents: Sequence[tuple[Work, Intent]]) -> list[bool]:
        about = intents[0][0].claim.node_id
        return await self._call(Point.INTENT, about, self._store.record_intents(intents))

    async def record_intent(self, work: Work, intent: Intent) -> None:
        await self._call(Point.INTENT, work.claim.node_id, self._store.record_intent(work, intent))

    async def record_moves(self, moves: Sequence[tuple[Work, Move]]) -> list[Advance | StaleClaim]:
        return await self._call(Point.RECORD, moves[0][0].claim.node_id, self._record(moves))

    async def _record(self, moves: Sequence[tuple[Work, Move]]) -> list[Advance | StaleClaim]:
        """Record, and see that what was fenced changed nothing and is in the journal."""
        claims = [work.claim for work, _ in moves]
        before = [self._ground.standing(claim.node_id) for claim in claims]
        found = await self._store.record_moves(moves)
        for claim, stood, outcome in zip(claims, before, found, strict=True):
            if isinstance(outcome, StaleClaim):
                if self._ground.standing(claim.node_id) != stood:
                    self._gate.problems.append(f"a late write changed {claim}: it stood at {stood}")
                if not self._ground.fenced(claim):
                    self._gate.problems.append(f"a late write under {claim} is not in the journal")
        return found

    async def release(self, claims: Sequence[Claim], *, delay_seconds: float = 0) -> None:
        about = " ".join(claim.node_id for claim in claims)
        await self._call(Point.RELEASE, about, self._store.release(claims, delay_seconds=delay_seconds))
