"""Templates: versioned DAGs of actions, checked for shape when they are read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from qtg_dagster.domain.canonical import canonical_json, digest, digest_text
from qtg_dagster.domain.errors import PlanInvalid

NodeKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
MANUAL_PREFIX = "manual_"
#: A typo in a reference must not reach a provider as literal text.
_LOOKS_LIKE_REFERENCE = re.compile(r"\s*\$")


class NodeKind(StrEnum):
    """What a node does to the world."""

    ACTION = "action"  # moves money or permits it: a side effect
    OBSERVE = "observe"  # waits for something to be seen
    MANUAL = "manual"  # a person acts and says so


class ParameterType(StrEnum):
    """How a template parameter is validated."""

    AMOUNT = "amount"
    ADDRESS = "address"
    TEXT = "text"


class Frozen(BaseModel):
    """Base of the domain's documents: immutable, and strangers are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ParameterSpec(Frozen):
    """One value a movement of this template must bring."""

    name: NodeKey
    type: ParameterType = ParameterType.TEXT
    asset: str | None = Field(default=None, description="for amounts: the asset, by its inventory key")
    description: str = ""


class RiskControls(Frozen):
    """Limits the engine enforces before any executor is asked. Amounts are plain decimal strings."""

    hard_cap: str | None = Field(default=None, description="largest amount of one movement")
    max_fee: str | None = Field(default=None, description="largest fee a node may agree to pay")
    destination_allowlist: tuple[str, ...] = Field(
        default=(), description="the only destinations; empty = none is allowed for nodes that name one"
    )


class ApprovalPolicy(Frozen):
    """Whose word a movement needs before it starts. Inside the approval digest, outside the plan hashes."""

    required: int = Field(default=1, ge=1, le=20, description="how many different people must approve")
    approvers: tuple[str, ...] = Field(default=(), description="who may approve; empty = anybody")
    self_approval: bool = Field(default=False, description="whether who asked for the movement may be one of them")
    valid_seconds: int | None = Field(
        default=None, gt=0, description="how long after the last approval its nodes may start; null = for good"
    )

    @model_validator(mode="after")
    def _can_be_met(self) -> Self:
        people = {name.strip().casefold() for name in self.approvers}
        if "" in people or len(people) != len(self.approvers):
            raise PlanInvalid("approval.approvers", "a name is empty or stands twice", "Name every person once.")
        if self.approvers and len(people) < self.required:
            raise PlanInvalid(
                "approval.required",
                f"{self.required} approvals of {len(people)} approvers can never be had",
                "Name more approvers or require fewer.",
            )
        return self


class TimeoutPolicy(Frozen):
    """How long a node may take before people are told. Outside the plan hashes, inside the approval digest."""

    observe_seconds: int | None = Field(default=None, gt=0)


class PlanNode(Frozen):
    """One action of a template. `config` may hold `$ref:node.field`, `$param:name` and `$intent:name`."""

    node_key: NodeKey
    node_kind: NodeKind
    action_type: str = Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")
    executor_key: str | None = Field(default=None, pattern=r"^exec(\.[a-z][a-z0-9_]*){2,}$")
    signer_role: str | None = Field(default=None, description="a role that the movement binds to a signer key")
    config: dict[str, Any] = Field(default_factory=dict)
    timeout_policy: TimeoutPolicy = TimeoutPolicy()

    @property
    def has_side_effect(self) -> bool:
        return self.node_kind is NodeKind.ACTION

    @model_validator(mode="after")
    def _config_is_exact(self) -> Self:
        for name, value in self.config.items():
            kind, target = split_reference(value)
            malformed = isinstance(value, str) and _LOOKS_LIKE_REFERENCE.match(value) and not kind
            if malformed or (kind == "ref" and not re.fullmatch(r"[^.]+\.[^.]+", target)):
                raise PlanInvalid(
                    f"nodes.{self.node_key}.config.{name}",
                    f"{value!r} is not a reference",
                    "Write $ref:node_key.field, $param:name or $intent:name.",
                )
        try:
            canonical_json(self.config)
        except TypeError as error:
            raise PlanInvalid(f"nodes.{self.node_key}.config", str(error), "Give text, whole numbers, lists.") from None
        return self

    @model_validator(mode="after")
    def _manual_means_manual(self) -> Self:
        manual = self.node_kind is NodeKind.MANUAL
        if manual != self.node_key.startswith(MANUAL_PREFIX):
            raise PlanInvalid(
                f"nodes.{self.node_key}",
                f"manual nodes, and only they, are named {MANUAL_PREFIX}*",
                "Rename the node or change its node_kind.",
            )
        if manual != (self.executor_key is None):
            raise PlanInvalid(
                f"nodes.{self.node_key}.executor_key",
                "every node but a manual one needs an executor",
                "Give an exact executor key, or make the node manual.",
            )
        return self


class PlanEdge(Frozen):
    """`to_node` waits for `from_node`."""

    from_node: NodeKey
    to_node: NodeKey


class Plan(Frozen):
    """One version of a template: what is done, in which order, within which limits."""

    template_key: NodeKey
    title: str = Field(min_length=1, max_length=200)
    description: str = ""
    parameters: tuple[ParameterSpec, ...] = ()
    risk_controls: RiskControls = RiskControls()
    approval: ApprovalPolicy = ApprovalPolicy()
    nodes: tuple[PlanNode, ...] = Field(min_length=1, max_length=200)
    edges: tuple[PlanEdge, ...] = ()

    @model_validator(mode="after")
    def _is_a_dag(self) -> Self:
        keys = [node.node_key for node in self.nodes]
        if len(set(keys)) != len(keys):
            raise PlanInvalid("nodes", "two nodes share a node_key", "Name every node once.")
        for edge in self.edges:
            for end in (edge.from_node, edge.to_node):
                if end not in keys:
                    raise PlanInvalid("edges", f"{end} is not a node", f"Use one of {', '.join(keys)}.")
        if len(set(self.edges)) != len(self.edges):
            raise PlanInvalid("edges", "an edge stands twice", "Remove the copy.")
        try:
            order = tuple(TopologicalSorter(self.predecessors()).static_order())
        except CycleError as cycle:
            raise PlanInvalid("edges", f"{' -> '.join(cycle.args[1])} is a cycle", "Remove one edge.") from cycle
        if len({parameter.name for parameter in self.parameters}) != len(self.parameters):
            raise PlanInvalid("parameters", "two parameters share a name", "Name every parameter once.")
        self._refs_point_backwards(order)
        return self

    def _refs_point_backwards(self, order: tuple[str, ...]) -> None:
        ancestors: dict[str, set[str]] = {}
        predecessors = self.predecessors()
        for key in order:
            ancestors[key] = {a for p in predecessors[key] for a in ancestors[p] | {p}}
        known = {parameter.name for parameter in self.parameters}
        for node in self.nodes:
            for name, value in node.config.items():
                kind, target = split_reference(value)
                if kind == "ref" and target.split(".", 1)[0] not in ancestors[node.node_key]:
                    raise PlanInvalid(
                        f"nodes.{node.node_key}.config.{name}",
                        f"{value} does not name a node that runs before",
                        "Reference an ancestor of this node.",
                    )
                if kind == "param" and target not in known:
                    raise PlanInvalid(
                        f"nodes.{node.node_key}.config.{name}",
                        f"{value} is not a parameter of the template",
                        "Declare it under parameters.",
                    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's; a changed plan spells itself anew."""
        copied = super().model_copy(update=update, deep=deep)
        for kept in ("graph_text", "whole_text", "risk_document", "_by_key", "_predecessors"):
            copied.__dict__.pop(kept, None)
        return copied

    @cached_property
    def graph_text(self) -> str:
        """Canonical JSON of what the graph hash covers; a plan never changes, so it is spelt once."""
        return canonical_json(_graph(self))

    @cached_property
    def whole_text(self) -> str:
        """Canonical JSON of all of it. What is as it was before it could be said is not said: digests stay valid."""
        unsaid = {"approval"} if self.approval == ApprovalPolicy() else None
        return canonical_json(self.model_dump(mode="json", exclude=unsaid))

    @cached_property
    def risk_document(self) -> dict[str, Any]:
        """The risk controls as executors are shown them."""
        return self.risk_controls.model_dump(mode="json")

    @cached_property
    def _by_key(self) -> dict[str, PlanNode]:
        return {node.node_key: node for node in self.nodes}

    @cached_property
    def _predecessors(self) -> dict[str, frozenset[str]]:
        waits: defaultdict[str, set[str]] = defaultdict(set)
        for edge in self.edges:
            waits[edge.to_node].add(edge.from_node)
        return {node.node_key: frozenset(waits[node.node_key]) for node in self.nodes}

    def node(self, node_key: str) -> PlanNode:
        """A node by its key; raises `KeyError`."""
        return self._by_key[node_key]

    def predecessors(self) -> dict[str, frozenset[str]]:
        """node_key -> the keys it waits for; every node is a key."""
        return self._predecessors

    def successors(self) -> dict[str, frozenset[str]]:
        """node_key -> the keys that wait for it; every node is a key."""
        waits: defaultdict[str, set[str]] = defaultdict(set)
        for edge in self.edges:
            waits[edge.from_node].add(edge.to_node)
        return {node.node_key: frozenset(waits[node.node_key]) for node in self.nodes}

    def signer_roles(self) -> frozenset[str]:
        return frozenset(node.signer_role for node in self.nodes if node.signer_role)


def split_reference(value: Any) -> tuple[str, str]:
    """`"$ref:a.b"` -> `("ref", "a.b")`; likewise `param` and `intent`; anything else -> `("", "")`."""
    if isinstance(value, str):
        match = re.fullmatch(r"\$(ref|param|intent):([A-Za-z0-9_.]+)", value)
        if match:
            return match.group(1), match.group(2)
    return "", ""


def graph_hash(plan: Plan) -> str:
    """Identity of a plan version: nodes, edges and config. `timeout_policy` is left out, as the seed has it."""
    return digest("qtg.graph.v1", _graph(plan))


def _graph(plan: Plan) -> dict[str, Any]:
    return {
        "template_key": plan.template_key,
        "nodes": [
            node.model_dump(mode="json", exclude={"timeout_policy"})
            for node in sorted(plan.nodes, key=lambda node: node.node_key)
        ],
        "edges": sorted([edge.from_node, edge.to_node] for edge in plan.edges),
    }


class MovementHashes(NamedTuple):
    """What a movement is held to."""

    compiled_plan: str  # what will run: the graph with this movement's intent, parameters and bindings
    approval: str  # all that the approver agrees to: the compiled plan and also timeouts, limits and fee ceilings


def movement_hashes(
    plan: Plan,
    intent: Mapping[str, Any],
    input_params: Mapping[str, Any],
    resolved_bindings: Mapping[str, Any],
) -> MovementHashes:
    """The identities of a movement's documents: hex SHA-256, each bound to its purpose."""
    rest = _around_plan(intent, input_params, resolved_bindings)
    around = rest["input_params"], rest["intent"], rest["resolved_bindings"]
    return MovementHashes(
        compiled_plan=digest_text(
            "qtg.compiled-plan.v1", f'{{"graph":{plan.graph_text},{around[0]},{around[1]},{around[2]}}}'
        ),
        approval=digest_text("qtg.approval.v1", f'{{{around[0]},{around[1]},"plan":{plan.whole_text},{around[2]}}}'),
    )


def _around_plan(
    intent: Mapping[str, Any], input_params: Mapping[str, Any], resolved_bindings: Mapping[str, Any]
) -> dict[str, str]:
    """Canonical text of each member beside the plan's own, which a plan spells once and keeps."""
    members = {"intent": intent, "input_params": input_params, "resolved_bindings": resolved_bindings}
    return {name: f'"{name}":{canonical_json(dict(value))}' for name, value in members.items()}
