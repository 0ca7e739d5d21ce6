"""What one template version changes in another, each difference by its path, and which of them loosen a control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.plan_dangers import absences, danger_of
from qtg_dagster.domain.plans import Plan

#: Path of a value -> the value's text.
Leaves = dict[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference; `before` None = it is new, `after` None = it is gone, both = it is missing from the start.

    `danger` says what it loosens.
    """

    path: str
    before: str | None
    after: str | None
    danger: str = ""


def leaves(plan: Plan | None) -> Leaves:
    """Everything that a plan says, value by value, but for the order of its lists (`orders`)."""
    if plan is None:
        return {}
    found: Leaves = {}
    document = plan.model_dump(mode="json")
    for name in ("template_key", "title", "description"):
        found[name] = _text(document[name])
    found.update(_fields("risk_controls", document["risk_controls"], ("destination_allowlist",)))
    found.update(_entries("risk_controls.destination_allowlist", plan.risk_controls.destination_allowlist))
    found.update(_fields("approval", document["approval"], ("approvers",)))
    found.update(_entries("approval.approvers", plan.approval.approvers))
    for parameter in document["parameters"]:
        found.update(_fields(f"parameters.{parameter['name']}", parameter, ("name",)))
    for node in document["nodes"]:
        where = f"nodes.{node['node_key']}"
        found.update(_fields(where, node, ("node_key", "config", "timeout_policy")))
        found.update(_fields(f"{where}.timeout_policy", node["timeout_policy"], ()))
        found.update({f"{where}.config.{name}": canonical_json(value) for name, value in node["config"].items()})
    found.update(_entries("edges", (f"{edge.from_node} -> {edge.to_node}" for edge in plan.edges)))
    return found


def orders(plan: Plan | None) -> dict[str, tuple[str, ...]]:
    """The lists of a plan whose order is part of what it says, by their path."""
    if plan is None:
        return {}
    return {
        "risk_controls.destination_allowlist": plan.risk_controls.destination_allowlist,
        "approval.approvers": plan.approval.approvers,
        "parameters": tuple(parameter.name for parameter in plan.parameters),
        "nodes": tuple(node.node_key for node in plan.nodes),
        "edges": tuple(f"{edge.from_node} -> {edge.to_node}" for edge in plan.edges),
    }


def changes(old: Plan | None, new: Plan) -> tuple[Change, ...]:
    """All differences, those that loosen a control first; none exactly when both say the same. None = no version."""
    before, after = leaves(old), leaves(new)
    paths = [*after, *(path for path in before if path not in after)]
    found = [(path, before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path)]
    found += _reorderings(orders(old), orders(new))
    marked = [Change(*each, danger_of(*each, old, new)) for each in found]
    if old is None:
        marked += [Change(path, None, None, danger) for path, danger in absences(new)]
    return tuple(sorted(marked, key=lambda change: not change.danger))


def _reorderings(
    before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str | None, str | None]]:
    """Lists that hold what they held in another order, whatever was added or taken out beside it."""
    for path, was in before.items():
        now = after[path]
        kept, both = Counter(was) & Counter(now), []
        for each in (was, now):
            left = kept.copy()
            both.append(tuple(item for item in each if _take(left, item)))
        if both[0] != both[1]:
            yield f"{path} (order)", ", ".join(both[0]), ", ".join(both[1])


def _take(left: Counter[str], item: str) -> bool:
    left[item] -= 1
    return left[item] >= 0


def _fields(where: str, document: Mapping[str, Any], apart: Iterable[str]) -> Leaves:
    """Fields that have a value; what is told in another way is left out."""
    told = ((name, value) for name, value in document.items() if name not in apart and value is not None)
    return {f"{where}.{name}": _text(value) for name, value in told}


def _entries(where: str, items: Iterable[str]) -> Leaves:
    """One leaf for each entry, which says how often it stands there."""
    return {f"{where}.{item}": item if many == 1 else f"{item}, {many} times" for item, many in Counter(items).items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)
