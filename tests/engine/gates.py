"""Places where the steps of a process wait until the test lets them go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.progress import Advance
from qtg_dagster.domain.velocity import VelocityLimit
from qtg_dagster.domain.work import Claim, Intent, Move, RecoveryArm, Work
from qtg_dagster.domain.workers import Claimant
from tests.engine.grounds import Ground

T = TypeVar("T")
Call = Callable[[], Awaitable[T]]


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

    async def _call(self, point: Point, node_id: str, call: Call[T]) -> T:
        told = await self._gate.wait(point, node_id)
        if told is Loss.BEFORE:
            raise self._ground.away
        found = await self._at_once(call)
        if told is Loss.AFTER:
            raise self._ground.away
        return found

    async def _at_once(self, call: Call[T]) -> T:
        self._gate.busy += 1
        try:
            return await call()
        finally:
            self._gate.busy -= 1

    async def claim_ready(self, runner: Claimant, batch: int) -> list[Claim]:
        return await self._claimed(lambda: self._claim_ready(runner, batch))

    async def claim_due_observations(self, runner: Claimant, batch: int) -> list[Claim]:
        return await self._claimed(lambda: self._taken(self._store.claim_due_observations(runner, batch)))

    async def claim_recoverable(
        self, runner: Claimant, arm: RecoveryArm, batch: int, *, graces: Mapping[str, float], default_grace: float
    ) -> list[Claim]:
        if arm.name != "rest":  # no node of the model is of another arm
            return []
        claim = self._store.claim_recoverable
        return await self._claimed(
            lambda: self._taken(claim(runner, arm, batch, graces=graces, default_grace=default_grace))
        )

    async def _claim_ready(self, runner: Claimant, batch: int) -> list[Claim]:
        before = self._ground.board()
        claims = await self._taken(self._store.claim_ready(runner, batch))
        keys = [before[claim.node_id].serialization_key for claim in claims]
        for claim, key in zip(claims, keys, strict=True):
            taken = key and (
                keys.count(key) > 1 or any(p.in_flight_key == key for n, p in before.items() if n != claim.node_id)
            )
            self._expect(not taken, f"{claim} was given beside another with its key")
            self._expect(before[claim.node_id].begins, f"{claim} was given in a movement that begins nothing")
        return claims

    async def _taken(self, call: Awaitable[list[Claim]]) -> list[Claim]:
        """Claim, and see that nothing was given that another holds."""
        before = self._ground.board()
        claims = await call
        for claim in claims:
            self._expect(not before[claim.node_id].held, f"{claim} was given, and held by another")
        return claims

    def _expect(self, true: bool, otherwise: str) -> None:
        if not true:
            self._gate.problems.append(otherwise)

    async def _claimed(self, call: Call[list[Claim]]) -> list[Claim]:
        claims = await self._call(Point.CLAIM, "", call)
        if claims:
            await self._gate.wait(Point.CLAIMED)
        return claims

    async def velocity_limits(self, network_class: str) -> list[VelocityLimit]:
        return await self._at_once(lambda: self._store.velocity_limits(network_class))

    async def load_works(self, claims: Sequence[Claim]) -> list[Work]:
        return await self._at_once(lambda: self._store.load_works(claims))

    async def release_forgotten(self, runner_id: int, in_work: Collection[str], *, delay_seconds: float = 0) -> int:
        return await self._at_once(
            lambda: self._store.release_forgotten(runner_id, in_work, delay_seconds=delay_seconds)
        )

    async def beat(self, *_: object, **__: object) -> None:
        """The model has no use for it."""

    async def record_intents(self, intents: Sequence[tuple[Work, Intent]]) -> list[bool]:
        about = intents[0][0].claim.node_id
        return await self._call(Point.INTENT, about, lambda: self._begin(intents))

    async def _begin(self, intents: Sequence[tuple[Work, Intent]]) -> list[bool]:
        """Write intents, and see that none is written that may not be; one may have to wait for its movement."""
        may = [self._may_begin(work.claim) for work, _ in intents]
        written = await self._store.record_intents(intents)
        for (work, _), allowed, done in zip(intents, may, written, strict=True):
            self._expect(allowed or not done, f"the intent under {work.claim} was written")
        return written

    def _may_begin(self, claim: Claim) -> bool:
        place = self._ground.board()[claim.node_id]
        return place.is_of(claim) and place.node_state == "READY" and place.begins

    async def record_intent(self, work: Work, intent: Intent) -> None:
        await self._call(Point.INTENT, work.claim.node_id, lambda: self._begin_alone(work, intent))

    async def _begin_alone(self, work: Work, intent: Intent) -> None:
        """Write an intent, and see that it is written exactly when it may be."""
        may = self._may_begin(work.claim)
        try:
            await self._store.record_intent(work, intent)
        except StaleClaim:
            # It waits for whoever holds its movement: what he has committed meanwhile counts too.
            may = may and self._may_begin(work.claim)
            self._expect(not may, f"the intent under {work.claim} was refused")
            raise
        self._expect(may, f"the intent under {work.claim} was written")

    async def record_moves(self, moves: Sequence[tuple[Work, Move]]) -> list[Advance | StaleClaim]:
        return await self._call(Point.RECORD, moves[0][0].claim.node_id, lambda: self._record(moves))

    async def _record(self, moves: Sequence[tuple[Work, Move]]) -> list[Advance | StaleClaim]:
        """Record, and see that what was fenced changed nothing and is in the journal."""
        works = [work for work, _ in moves]
        board, before = self._ground.board(), [self._ground.standing(work.claim.node_id) for work in works]
        found = await self._store.record_moves(moves)
        for work, stood, outcome in zip(works, before, found, strict=True):
            claim, place, late = work.claim, board[work.claim.node_id], isinstance(outcome, StaleClaim)
            ours = place.is_of(claim) and place.node_state == work.node_state
            self._expect(late is not ours, f"a write under {claim} was {'' if late else 'not '}fenced at {place}")
            if late:
                self._expect(self._ground.standing(claim.node_id) == stood, f"a late write changed {claim}: {stood}")
                self._expect(self._ground.fenced(claim), f"a late write under {claim} is not in the journal")
        return found

    async def release(self, claims: Sequence[Claim], *, delay_seconds: float = 0) -> None:
        about = " ".join(claim.node_id for claim in claims)
        await self._call(Point.RELEASE, about, lambda: self._store.release(claims, delay_seconds=delay_seconds))
