"""A provider that knows the truth, and rules about what the engine may believe of it."""

# ruff: noqa: ARG002 - the contract names what the provider does not read
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import (
    ADOPTED_REF,
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    PreparedAction,
    ResultStatus,
)
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.states import (
    INITIAL_NODE_STATE,
    NODE_MOVES,
    SETTLED_NODE_STATES,
    NodeState,
)
from tests.engine.gates import Gate, Point
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
    NONSENSE = "an answer outside the contract, after executing"


_EXECUTED = frozenset({Fate.ACCEPT, Fate.COMPLETE, Fate.LOSE_REPLY, Fate.NONSENSE})


class Look(StrEnum):
    """How frank the provider is when it is asked."""

    FRANK = "frank"
    PENDING = "pending"
    ERROR = "error"
    REFUNDED = "it was accepted, and failed in the end"


@dataclass
class World:
    """The provider's truth.

    Things are named by the key that they were executed under; what people did by hand has a name of its own. A key of
    which the provider has said that nothing came of it is closed: nothing will. One that it called done stays done.
    """

    book: list[str] = field(default_factory=list)
    undone: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    by_hand: dict[str, str] = field(default_factory=dict)  # thing -> node id
    submits: list[str] = field(default_factory=list)
    fate: Fate = Fate.ACCEPT
    look: Look = Look.FRANK

    def moved(self, thing: str) -> bool:
        return thing in self.book and thing not in self.undone

    def execute(self, key: str, fate: Fate) -> Fate:
        """Let a submit have its fate; a closed key is refused."""
        if fate in _EXECUTED and key in self.closed:
            return Fate.REJECT
        if fate in _EXECUTED:
            self.book.append(key)
        if fate is Fate.COMPLETE:
            self.done.add(key)
        if fate in (Fate.REJECT, Fate.NOT_SENT):
            self.closed.add(key)
        return fate

    def seen(self, thing: str, look: Look, unproven: ResultStatus) -> ExecutionResult | None:
        """What the provider says of a thing; None when it says nothing."""
        if look is Look.ERROR:
            return None
        if look is Look.PENDING:
            return answer(unproven)
        if look is Look.REFUNDED and thing not in self.done:
            self.undone.add(thing)
        if self.moved(thing):
            self.done.add(thing)
            return answer(S.COMPLETED, provider_refs={"reference": thing})
        self.closed.add(thing)
        return answer(S.FAILED)


class TruthfulExecutor:
    """Answers by its book, as frankly as it is told to; its calls wait at the gate of the process that makes them."""

    identifying_refs = ("reference",)
    submit_grace_seconds = 0.0

    def __init__(self, world: World, gate: Gate, key: str | None = None) -> None:
        self._world = world
        self._gate = gate
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
        told = await self._gate.wait(Point.SUBMIT, context.request_node_id)
        fate = world.execute(key, told or world.fate)
        await self._gate.wait(Point.ANSWER, context.request_node_id)
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
            case _:
                raise TimeoutError(fate)

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        return await self._answer(context, unproven=S.OBSERVING)

    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        return await self._answer(context, unproven=S.UNKNOWN)

    async def _answer(self, context: ExecutionContext, *, unproven: ResultStatus) -> ExecutionResult:
        world, thing = self._world, str(context.node_refs.get(ADOPTED_REF, context.idempotency_key))
        look = await self._gate.wait(Point.LOOK, context.request_node_id) or world.look
        if look is Look.REFUNDED and unproven is S.UNKNOWN:
            look = Look.PENDING
        said = world.seen(thing, look, unproven)
        await self._gate.wait(Point.ANSWER, context.request_node_id)
        if said is None:
            raise OSError("no answer")
        return said

    async def adopt(self, context: ExecutionContext, reference: str) -> ExecutionResult:
        its_own = reference == context.idempotency_key
        by_hand = self._world.by_hand.get(reference) == context.request_node_id and context.prepared is None
        if self._world.moved(reference) and (its_own or by_hand):
            return answer(S.ACCEPTED, provider_refs={"reference": reference})
        return answer(S.REJECTED, error_message="that is not this node's action")

    async def health(self) -> HealthReport | None:
        return None


def check_nodes(plan: Plan, world: World, rows: list[dict[str, Any]]) -> None:
    """Each node's state against the provider's truth, its own evidence and its predecessors."""
    states = {row["node_key"]: NodeState(row["node_state"]) for row in rows}
    waits_for = plan.predecessors()

    def settled(key: str) -> bool:
        return states[key] in SETTLED_NODE_STATES and all(settled(before) for before in waits_for[key])

    for row in rows:
        key, state = row["node_key"], states[row["node_key"]]
        moved = [thing for thing in row["things"] if world.moved(thing)]
        assert len(moved) <= 1, f"{key} moved its money {len(moved)} times"
        if state in (NodeState.COMPLETED, NodeState.FAILED):
            assert row["evidence_of"] == row["id"], f"{key} is {state} by another node's evidence"
            assert row["evidence_to"] == state, f"{key} is {state} by evidence of {row['evidence_to']}"
        if state in (NodeState.FAILED, NodeState.CANCELLED, NodeState.SKIPPED, NodeState.BLOCKED):
            assert not moved, f"{key} is {state}, but its money moved"
        if state is NodeState.COMPLETED and not key.startswith("manual_"):
            assert len(moved) == 1, f"{key} is COMPLETED, and moved nothing"
        if state not in (NodeState.BLOCKED, NodeState.CANCELLED, NodeState.SKIPPED):
            assert all(settled(before) for before in waits_for[key]), f"{key} began too early"


def check_journal(rows: list[dict[str, Any]]) -> None:
    """The journaled moves of each node are one legal path to where it stands."""
    for row in rows:
        here = INITIAL_NODE_STATE
        for old, new in row["moves"]:
            assert old == here, f"{row['node_key']}: the journal jumps from {here} to {old}"
            assert new in NODE_MOVES[NodeState(old)], f"{row['node_key']}: {old} -> {new} is not a move"
            here = NodeState(new)
        assert here == row["node_state"], f"{row['node_key']} stands at {row['node_state']}, its journal at {here}"
