"""Which differences between two template versions loosen a control, and what each of them loosens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from qtg_dagster.domain.plans import NodeKind, Plan, PlanNode
from qtg_dagster.domain.review import decimal_of
from qtg_dagster.domain.risk import same_destination


@dataclass(frozen=True, slots=True)
class _Difference:
    """One value of two versions; `rest` is its path within its section."""

    rest: str
    before: str | None
    after: str | None
    old: Plan | None
    new: Plan


def danger_of(path: str, before: str | None, after: str | None, old: Plan | None, new: Plan) -> str:
    """What this difference loosens, in words; empty when it loosens nothing. `old` None = there was no version."""
    section, _, rest = path.partition(".")
    rule = _RULES.get(section)
    return rule(_Difference(rest, before, after, old, new)) if rule else ""


def absences(new: Plan) -> Iterator[tuple[str, str]]:
    """Controls that a template lacks from the start: path, and why that matters."""
    if new.risk_controls.hard_cap is None and any(node.has_side_effect for node in new.nodes):
        yield "risk_controls.hard_cap", "no amount is too large"


def _risk(seen: _Difference) -> str:
    name, _, entry = seen.rest.partition(".")
    match name:
        case "hard_cap":
            return _raised(seen, "no amount is too large any more", "larger amounts are allowed")
        case "max_fee":
            return _raised(seen, "no fee is too large any more", "larger fees are allowed")
        case "destination_allowlist" if seen.before is None:
            known = seen.old.risk_controls.destination_allowlist if seen.old else ()
            return "" if any(same_destination(entry, each) for each in known) else "money may go there, and could not"
        case _:
            return ""


def _raised(seen: _Difference, gone: str, higher: str) -> str:
    if seen.before is None:
        return ""
    if seen.after is None:
        return gone
    was, becomes = decimal_of(seen.before), decimal_of(seen.after)
    if was is None or becomes is None:
        return "the two cannot be compared"
    return higher if becomes > was else ""


def _approval(seen: _Difference) -> str:
    before, after = seen.before, seen.after
    match seen.rest.partition(".")[0]:
        case "required" if before is not None and after is not None:
            return "fewer people must approve" if int(after) < int(before) else ""
        case "self_approval":
            return "who asks for a movement may approve it" if after == "true" else ""
        case "valid_seconds":
            longer = before is not None and (after is None or int(after) > int(before))
            return "an approval counts for longer" if longer else ""
        case "approvers" if after is None:
            return "" if seen.new.approval.approvers else "anybody may approve"
        case "approvers" if before is None:
            return "may approve, and could not" if seen.old and seen.old.approval.approvers else ""
        case _:
            return ""


def _parameters(seen: _Difference) -> str:
    name, _, field = seen.rest.partition(".")
    if field not in ("type", "asset") or seen.old is None:
        return ""
    known = any(parameter.name == name for parameter in seen.old.parameters)
    return "its values are checked by another rule" if known else ""


def _nodes(seen: _Difference) -> str:
    key, _, field = seen.rest.partition(".")
    was, becomes = _node(seen.old, key), _node(seen.new, key)
    if was is None or becomes is None:
        return _whole_node(field, was, becomes)
    if field.startswith("config."):
        acts = was.has_side_effect or becomes.has_side_effect
        return "the action does something else" if acts else ""
    return {
        "node_kind": "it is another kind of step",
        "action_type": "it does something else",
        "executor_key": "another executor acts",
        "signer_role": "another signer signs, or none",
    }.get(field, "")


def _whole_node(field: str, was: PlanNode | None, becomes: PlanNode | None) -> str:
    if field != "node_kind":
        return ""
    if becomes is not None:
        return "one more action" if becomes.has_side_effect else ""
    if was is None or was.has_side_effect:
        return ""
    return "a person's step is gone" if was.node_kind is NodeKind.MANUAL else "something is not waited for any more"


def _edges(seen: _Difference) -> str:
    if seen.after is not None or seen.old is None:
        return ""
    first, _, then = seen.rest.partition(" -> ")
    here = {node.node_key for node in seen.new.nodes}
    lost = ({first} | _ancestors(seen.old, first)) & here - _ancestors(seen.new, then) if then in here else set()
    return f"{then} does not wait for {', '.join(sorted(lost))} any more" if lost else ""


def _ancestors(plan: Plan, key: str) -> set[str]:
    waits = plan.predecessors()
    found, ahead = set[str](), list(waits.get(key, ()))
    while ahead:
        each = ahead.pop()
        if each not in found:
            found.add(each)
            ahead += waits[each]
    return found


def _node(plan: Plan | None, key: str) -> PlanNode | None:
    return next((node for node in plan.nodes if node.node_key == key), None) if plan else None


_RULES: dict[str, Callable[[_Difference], str]] = {
    "risk_controls": _risk,
    "approval": _approval,
    "parameters": _parameters,
    "nodes": _nodes,
    "edges": _edges,
}
