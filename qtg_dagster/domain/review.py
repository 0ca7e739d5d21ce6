"""What an approver must see of a movement before saying yes. Pure: all of it was read by others, or could not be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, localcontext
from graphlib import TopologicalSorter
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pydantic import Field

from qtg_dagster.domain.breakers import Breaker
from qtg_dagster.domain.contract import HealthState
from qtg_dagster.domain.plans import Frozen, PlanNode, movement_hashes, split_reference
from qtg_dagster.domain.requests import LockedRequest
from qtg_dagster.domain.signer_identity import SignerIdentity
from qtg_dagster.domain.states import NodeState
from qtg_dagster.domain.velocity import VelocityLimit

_NOT_BEGUN = frozenset({NodeState.BLOCKED, NodeState.READY})
#: More than any sum of amounts has: nothing is rounded.
_DIGITS = 160
_PLAIN = r"(0|[1-9][0-9]*)(\.[0-9]+)?"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NotKnown:
    """What could not be read, and why. `expected` = in the nature of the plan, nothing to be warned of."""

    why: str
    expected: bool = False

    def __str__(self) -> str:
        return f"not known: {self.why}"


@dataclass(frozen=True, slots=True)
class FromNode:
    """A value that an earlier node will report."""

    node_key: str
    field: str

    def __str__(self) -> str:
        return f"{self.field} of {self.node_key}, once that is done"


class FeeEstimate(Frozen):
    """What a node's action would cost now."""

    asset: str = Field(description="inventory key of the asset that the fee is paid in")
    amount: str = Field(pattern=f"^{_PLAIN}$", description="plain decimal")
    how: str = Field(description="how it was come by, for people")
    on_top: bool = Field(default=True, description="paid by the source beside the amount; false = taken out of it")


class Holding(NamedTuple):
    """An asset of ours in one place."""

    place: str  # a venue's key, or a chain
    account: str  # the venue account's name, or the address on the chain
    asset: str

    def __str__(self) -> str:
        return f"{self.asset} of {self.account} at {self.place}"


@dataclass(frozen=True, slots=True)
class Balance:
    """The newest known free balance of a holding; `problem` = why it is not newer than it is."""

    free: str
    read_at: datetime
    live: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LastHealth:
    """The last check of an executor or signer; `checked_at` None = none yet."""

    key: str
    state: HealthState
    detail: str
    checked_at: datetime | None


@dataclass(frozen=True, slots=True)
class ReviewedNode:
    """A node with its config as it will run: references to earlier nodes are `FromNode`."""

    node: PlanNode
    state: NodeState
    waits_for: tuple[str, ...]
    executor: str | None
    signer: str | None
    config: Mapping[str, Any]
    source: Holding | None = None

    @property
    def key(self) -> str:
        return self.node.node_key

    @property
    def open_values(self) -> dict[str, FromNode | NotKnown]:
        """Config values that are not known before earlier nodes have run."""
        return {name: value for name, value in self.config.items() if isinstance(value, (FromNode, NotKnown))}

    @property
    def amount(self) -> Decimal | None:
        """What it takes out of its source; None when that is not known yet, or it has none."""
        return decimal_of(self.config.get("amount")) if self.to_come and self.source else None

    @property
    def to_come(self) -> bool:
        """Whether its effect is still ahead."""
        return self.node.has_side_effect and self.state in _NOT_BEGUN


Balances: TypeAlias = "Mapping[Holding, Balance]"


@dataclass(frozen=True, slots=True)
class Review:
    """A movement and all around it, as far as it could be read."""

    request: LockedRequest
    nodes: tuple[ReviewedNode, ...]
    reason: str
    scopes: Mapping[str, Sequence[str]] | NotKnown  # node key -> what a breaker must stand on to hold it
    breakers: Sequence[Breaker] | NotKnown
    velocity: Mapping[str, VelocityLimit] | NotKnown  # by the asset's inventory key
    health: Mapping[str, LastHealth] | NotKnown
    signers: Mapping[str, SignerIdentity] | NotKnown
    balances: Mapping[str, Balances | NotKnown] = field(default_factory=dict)  # by place
    fees: Mapping[str, FeeEstimate | NotKnown] = field(default_factory=dict)  # by node key

    @property
    def unchanged(self) -> tuple[bool, bool]:
        """Whether compiled plan hash and approval digest are those of what is stored now."""
        request = self.request
        now = movement_hashes(request.stored.plan, request.intent, request.input_params, request.resolved_bindings)
        return now.compiled_plan == request.compiled_plan_hash, now.approval == request.approval_digest

    def bound(self) -> tuple[str, ...]:
        """Keys of all executors and signers that act for it, sorted."""
        return tuple(sorted(set(self.request.resolved_bindings.values())))

    def held_by(self) -> list[tuple[Breaker, tuple[str, ...]]]:
        """Breakers that stand over nodes of it which have not begun, and those nodes."""
        if isinstance(self.breakers, NotKnown) or isinstance(self.scopes, NotKnown):
            return []
        ahead = [node.key for node in self.nodes if node.state in _NOT_BEGUN]
        under = [
            (each, tuple(key for key in ahead if each.scope in self.scopes.get(key, ()))) for each in self.breakers
        ]
        return [(breaker, keys) for breaker, keys in under if keys]

    def taken(self) -> dict[str, Decimal]:
        """Asset -> how much of it would still leave holdings of ours, as far as amounts are known."""
        return _summed((node.source.asset, node.amount) for node in self.nodes if node.source and node.amount)

    def needed(self) -> dict[Holding, Decimal]:
        """Holding -> what must be there, fees that are paid beside included; what earlier nodes bring is left out."""
        wanted: list[tuple[Holding, Decimal]] = []
        for node in self.nodes:
            if node.source is None or not node.to_come:
                continue
            if node.amount and not self.funded_by(node):
                wanted.append((node.source, node.amount))
            fee = self.fees.get(node.key)
            cost = decimal_of(fee.amount) if isinstance(fee, FeeEstimate) and fee.on_top else None
            if isinstance(fee, FeeEstimate) and cost:
                wanted.append((node.source._replace(asset=fee.asset), cost))
        return _summed(wanted)

    def funded_by(self, node: ReviewedNode) -> tuple[str, ...]:
        """Earlier nodes that pay the same asset to this node's source."""
        if node.source is None:
            return ()
        ahead, before = list(node.waits_for), set[str]()
        waits = {each.key: each.waits_for for each in self.nodes}
        while ahead:
            key = ahead.pop()
            if key not in before:
                before.add(key)
                ahead += waits[key]
        paying = (each for each in self.nodes if each.key in before and each.node.has_side_effect)
        return tuple(
            each.key
            for each in paying
            if each.config.get("asset") == node.source.asset
            and str(each.config.get("destination", "")).lower() == node.source.account.lower()
        )


def reviewed_nodes(request: LockedRequest) -> tuple[ReviewedNode, ...]:
    """The nodes in an order in which they may run; the same order every time."""
    plan, bindings = request.stored.plan, request.resolved_bindings
    waits = {node.node_key: sorted(plan.predecessors()[node.node_key]) for node in plan.nodes}
    return tuple(
        ReviewedNode(
            node=plan.node(key),
            state=request.node_states[key],
            waits_for=tuple(waits[key]),
            executor=bindings.get(f"executor:{key}"),
            signer=bindings.get(f"signer:{plan.node(key).signer_role}"),
            config={name: _as_it_runs(value, request) for name, value in plan.node(key).config.items()},
        )
        for key in TopologicalSorter(waits).static_order()
    )


def decimal_of(value: object) -> Decimal | None:
    """An amount in plain decimal text, as `Amount` reads it; None for anything else."""
    return Decimal(value) if isinstance(value, str) and re.fullmatch(_PLAIN, value) else None


def _as_it_runs(value: object, request: LockedRequest) -> object:
    kind, target = split_reference(value)
    if kind == "ref":
        node_key, _, name = target.partition(".")
        return FromNode(node_key, name)
    if kind:
        found = (request.input_params if kind == "param" else request.intent).get(target)
        return NotKnown(f"{value} has no value") if found in (None, "") else found
    return value


def _summed(parts: Iterable[tuple[T, Decimal]]) -> dict[T, Decimal]:
    sums: dict[T, Decimal] = {}
    with localcontext(prec=_DIGITS):
        for key, amount in parts:
            sums[key] = sums.get(key, Decimal()) + amount
    return sums
