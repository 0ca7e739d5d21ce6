"""A provider that knows the truth, and rules about what the engine may believe of it."""

# ruff: noqa: ARG002 - the contract names what the provider does not read
from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, HealthReport, PreparedAction, ResultStatus
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.states import (
    INITIAL_NODE_STATE,
    NODE_MOVES,
    SETTLED_NODE_STATES,
    NodeState,
)
from tests.engine.provider import answer

S = ResultStatus


class Fate(StrEnum):
    """What becomes of one submit."""

    ACCEPT = "accept"
    COMPLETE = "complete"
    REJECT = "reject"
    NOT_SENT = "not sent"
    LOSE_REPLY = "lose the reply after executing"
    LOSE_REQUEST = "lose the request before executing"
    DIE_AFTER = "the process dies after executing"
    DIE_BEFORE = "the process dies before executing"
    NONSENSE = "an answer outside the contract, after executing"


class Look(StrEnum):
    """How frank the provider is when it is asked."""

    FRANK = "frank"
    PENDING = "pending"
    ERROR = "error"
    REFUNDED = "it was accepted, and failed in the end"


class Death(BaseException):
    """The process is gone: nothing after this line happens."""


@dataclass
class World:
    """The provider's truth: keys in the order they were executed, and those that came to nothing in the end."""

    book: list[str] = field(default_factory=list)
    undone: set[str] = field(default_factory=set)
    fates: list[Fate] = field(default_factory=list)
    look: Look = Look.FRANK
    submits: list[str] = field(default_factory=list)
    meanwhile: Callable[[str], Awaitable[None]] | None = None  # happens once, while an answer is on its way

    async def answer_travels(self, node_id: str) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile(node_id)

    def moved(self, key: str) -> bool:
        return key in self.book and key not in self.undone


class TruthfulExecutor:
    """Answers by its book, as frankly as it is told to."""

    submit_grace_seconds = 0.0

    def __init__(self, world: World, key: str | None = None) -> None:
        self._world = world
        self._key = key

    def serialization_key(self, node_config: Mapping[str, Any]) -> str | None:
        return self._key

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        return None

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        payload = canonical_json({"key": context.idempotency_key})
        return PreparedAction.of(action_type=context.action_type, payload_format="model.v1", payload=payload)

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: object = None
    ) -> ExecutionResult:
        world, key = self._world, context.idempotency_key
        world.submits.append(key)
        fate = world.fates.pop(0) if world.fates else Fate.ACCEPT
        if fate in (Fate.ACCEPT, Fate.COMPLETE, Fate.LOSE_REPLY, Fate.DIE_AFTER, Fate.NONSENSE):
            world.book.append(key)
        await world.answer_travels(context.request_node_id)
        match fate:
            case Fate.ACCEPT:
                return answer(S.ACCEPTED, provider_refs={"reference": key})
            case Fate.COMPLETE:
                return answer(S.COMPLETED, provider_refs={"reference": key})
            case Fate.REJECT:
                return answer(S.REJECTED)
            case Fate.NOT_SENT:
                return answer(S.NOT_SENT)
            case Fate.NONSENSE:
                return answer(S.OBSERVING)
            case Fate.DIE_AFTER | Fate.DIE_BEFORE:
                raise Death
            case _:
                raise TimeoutError(fate)

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        return await self._answer(context, unproven=S.OBSERVING)

    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        return await self._answer(context, unproven=S.UNKNOWN)

    async def _answer(self, context: ExecutionContext, *, unproven: ResultStatus) -> ExecutionResult:
        said = self._seen(context.idempotency_key, unproven)
        await self._world.answer_travels(context.request_node_id)
        if said is None:
            raise OSError("no answer")
        return said

    def _seen(self, key: str, unproven: ResultStatus) -> ExecutionResult | None:
        world = self._world
        match world.look:
            case Look.ERROR:
                return None
            case Look.PENDING:
                return answer(unproven)
            case Look.REFUNDED:
                world.undone.add(key)
        if world.moved(key):
            return answer(S.COMPLETED, provider_refs={"reference": key})
        return answer(S.FAILED)

    async def health(self) -> HealthReport | None:
        return None


def check_nodes(plan: Plan, world: World, rows: list[dict[str, Any]]) -> None:
    """Each node's state against the provider's truth, its own evidence and its predecessors."""
    states = {row["node_key"]: NodeState(row["node_state"]) for row in rows}
    waits_for = plan.predecessors()
    for row in rows:
        key, state = row["node_key"], states[row["node_key"]]
        moved = [attempt for attempt in row["keys"] if world.moved(attempt)]
        if state in (NodeState.COMPLETED, NodeState.FAILED):
            assert row["evidence_of"] == row["id"], f"{key} is {state} by another node's evidence"
            assert row["evidence_to"] == state, f"{key} is {state} by evidence of {row['evidence_to']}"
        if state is NodeState.FAILED:
            assert not moved, f"{key} is FAILED, but its money moved"
        if state is NodeState.COMPLETED and not key.startswith("manual_"):
            assert len(moved) == 1, f"{key} is COMPLETED, and moved {len(moved)} times"
        if state is NodeState.CANCELLED:
            assert not moved, f"{key} is CANCELLED, but its money moved"
        if state not in (NodeState.BLOCKED, NodeState.CANCELLED):
            assert {states[before] for before in waits_for[key]} <= SETTLED_NODE_STATES, f"{key} began too early"


def check_journal(rows: list[dict[str, Any]]) -> None:
    """The journaled moves of each node are one legal path to where it stands, counted by its version."""
    for row in rows:
        here = INITIAL_NODE_STATE
        for old, new in row["moves"]:
            assert old == here, f"{row['node_key']}: the journal jumps from {here} to {old}"
            assert new in NODE_MOVES[NodeState(old)], f"{row['node_key']}: {old} -> {new} is not a move"
            here = NodeState(new)
        assert here == row["node_state"], f"{row['node_key']} stands at {row['node_state']}, its journal at {here}"
        assert row["state_version"] == len(row["moves"])
