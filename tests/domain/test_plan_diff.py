"""An approver is shown every difference between two template versions, and which of them loosen a control."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.errors import PlanInvalid
from qtg_dagster.domain.plan_diff import Change, changes, leaves, orders
from qtg_dagster.domain.plans import NodeKind, Plan
from qtg_dagster.domain.proposals import plan_digest

Document = dict[str, Any]

BASE: Document = {
    "template_key": "rent",
    "title": "Rent",
    "description": "monthly",
    "parameters": [
        {"name": "amount", "type": "amount", "asset": "USDC"},
        {"name": "note", "type": "text", "asset": None, "description": "why"},
    ],
    "risk_controls": {"hard_cap": "1000", "max_fee": "5", "destination_allowlist": ["0xAA", "vault"]},
    "approval": {"required": 2, "approvers": ["grace", "heidi", "ivan"], "valid_seconds": 3600},
    "nodes": [
        {"node_key": "manual_check", "node_kind": "manual", "action_type": "look", "config": {"instruction": "look"}},
        {
            "node_key": "pay",
            "node_kind": "action",
            "action_type": "move",
            "executor_key": "exec.local.move",
            "signer_role": "treasury",
            "config": {"amount": "$param:amount", "asset": "USDC", "destination": "0xAA", "more": {"deep": [1, True]}},
            "timeout_policy": {"observe_seconds": 60},
        },
        {
            "node_key": "watch",
            "node_kind": "observe",
            "action_type": "watch",
            "executor_key": "exec.local.watch",
            "config": {"reference": "$ref:pay.reference"},
        },
    ],
    "edges": [{"from_node": "manual_check", "to_node": "pay"}, {"from_node": "pay", "to_node": "watch"}],
}


def plan_with(**replaced: Any) -> Plan:
    """The plan with some values replaced; a path's steps are joined by two underscores."""
    document = copy.deepcopy(BASE)
    for path, value in replaced.items():
        *ahead, last = path.split("__")
        place: Any = document
        for step in ahead:
            place = place[int(step)] if step.isdecimal() else place.setdefault(step, {})
        place[last] = value
    return Plan.model_validate(document)


PLAN = plan_with()
TEXTS = st.sampled_from(["", "x", "0xaa", "0xAA", "1", "true", "null", "1000", "a -> b", "x, 2 times", "vault", "ä"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | TEXTS, lambda inner: st.lists(inner, max_size=2)
) | st.dictionaries(TEXTS, st.integers(0, 2), max_size=2)


@st.composite
def any_plan(draw: st.DrawFn) -> Plan:
    """Plans that often differ little."""
    keys = draw(st.lists(st.sampled_from(["pay", "watch", "manual_check", "again"]), min_size=1, unique=True))
    nodes = []
    for key in keys:
        kind = NodeKind.MANUAL if key.startswith("manual_") else draw(st.sampled_from(["action", "observe"]))
        executor = None if key.startswith("manual_") else draw(st.sampled_from(["exec.local.move", "exec.local.watch"]))
        nodes.append(
            {
                "node_key": key,
                "node_kind": kind,
                "action_type": draw(st.sampled_from(["move", "look"])),
                "executor_key": executor,
                "signer_role": draw(st.none() | TEXTS),
                "config": draw(st.dictionaries(TEXTS, VALUES, max_size=3)),
                "timeout_policy": {"observe_seconds": draw(st.none() | st.integers(1, 2))},
            }
        )
    pairs = [(keys[i], keys[j]) for j in range(len(keys)) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    names = draw(st.lists(st.sampled_from(["amount", "note"]), unique=True))
    people = draw(st.lists(st.sampled_from(["grace", "heidi", "ivan"]), unique=True))
    return Plan.model_validate(
        {
            "template_key": "rent",
            "title": draw(st.sampled_from(["Rent", "rent"])),
            "description": draw(TEXTS),
            "parameters": [
                {"name": n, "type": draw(st.sampled_from(["amount", "text"])), "asset": draw(st.none() | TEXTS)}
                for n in names
            ],
            "risk_controls": {
                "hard_cap": draw(st.none() | TEXTS),
                "max_fee": draw(st.none() | TEXTS),
                "destination_allowlist": draw(st.lists(TEXTS, max_size=3)),
            },
            "approval": {
                "approvers": people,
                "required": draw(st.integers(1, max(1, len(people)))),
                "self_approval": draw(st.booleans()),
                "valid_seconds": draw(st.none() | st.integers(1, 2)),
            },
            "nodes": nodes,
            "edges": [{"from_node": before, "to_node": after} for before, after in edges],
        }
    )


@given(any_plan())
def test_what_is_the_same_has_no_difference_also_after_it_was_stored_and_read(plan: Plan) -> None:
    read = Plan.model_validate_json(plan.model_dump_json())
    assert changes(plan, read) == ()
    assert plan_digest(read) == plan_digest(plan)


@given(any_plan(), any_plan())
def test_there_is_a_difference_exactly_when_the_plans_do_not_say_the_same(old: Plan, new: Plan) -> None:
    assert bool(changes(old, new)) == (old.whole_text != new.whole_text)
    assert (plan_digest(old) == plan_digest(new)) == (old.whole_text == new.whole_text)


@given(st.none() | any_plan(), any_plan())
def test_the_differences_are_all_that_leads_from_one_plan_to_the_other(old: Plan | None, new: Plan) -> None:
    said = {change.path: change for change in changes(old, new)}
    after = leaves(old)
    for path, change in said.items():
        if path.endswith(" (order)") or (change.before, change.after) == (None, None):
            continue
        assert after.get(path) == change.before
        after.pop(path, None)
        if change.after is not None:
            after[path] = change.after
    assert after == leaves(new)
    kept = {path for path, was in orders(old).items() if sorted(was) == sorted(orders(new)[path])}
    for path in kept:
        assert (f"{path} (order)" in said) == (orders(old)[path] != orders(new)[path])


def every_single_change(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each scalar of a document, with another value in its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from every_single_change(inner, (*where, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from every_single_change(inner, (*where, place))
    elif value is None:
        yield where, 7 if where[-1] in ("observe_seconds", "valid_seconds") else "7"
    elif isinstance(value, bool):
        yield where, not value
    elif isinstance(value, int):
        yield where, value + 1
    else:
        yield where, f"{value}x"


def _spoil(where: tuple[Any, ...], value: Any) -> Plan | None:
    document = PLAN.model_dump(mode="json")
    place: Any = document
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    try:
        return Plan.model_validate(document)
    except (ValueError, PlanInvalid):
        return None


def test_every_single_change_is_seen() -> None:
    seen = 0
    for where, value in every_single_change(PLAN.model_dump(mode="json")):
        other = _spoil(where, value)
        if other is not None:
            assert changes(PLAN, other), where
            assert changes(other, PLAN), where
            seen += 1
    assert seen > 25


def dangers(old: Plan | None, new: Plan) -> dict[str, str]:
    return {change.path: change.danger for change in changes(old, new) if change.danger}


@pytest.mark.parametrize(
    ("change", "path", "danger"),
    [
        ({"risk_controls__hard_cap": "1000.01"}, "risk_controls.hard_cap", "larger amounts are allowed"),
        ({"risk_controls__hard_cap": "10000"}, "risk_controls.hard_cap", "larger amounts are allowed"),
        ({"risk_controls__hard_cap": None}, "risk_controls.hard_cap", "no amount is too large any more"),
        ({"risk_controls__hard_cap": "lots"}, "risk_controls.hard_cap", "the two cannot be compared"),
        ({"risk_controls__max_fee": "6"}, "risk_controls.max_fee", "larger fees are allowed"),
        ({"risk_controls__max_fee": None}, "risk_controls.max_fee", "no fee is too large any more"),
        (
            {"risk_controls__destination_allowlist": ["0xAA", "vault", "0xBB"]},
            "risk_controls.destination_allowlist.0xBB",
            "money may go there, and could not",
        ),
        ({"approval__required": 1}, "approval.required", "fewer people must approve"),
        ({"approval__self_approval": True}, "approval.self_approval", "who asks for a movement may approve it"),
        ({"approval__valid_seconds": None}, "approval.valid_seconds", "an approval counts for longer"),
        ({"approval__valid_seconds": 7200}, "approval.valid_seconds", "an approval counts for longer"),
        (
            {"approval__approvers": ["grace", "heidi", "ivan", "mallory"]},
            "approval.approvers.mallory",
            "may approve, and could not",
        ),
        ({"approval__approvers": []}, "approval.approvers.grace", "anybody may approve"),
        ({"parameters__0__asset": "ETH"}, "parameters.amount.asset", "its values are checked by another rule"),
        ({"nodes__1__executor_key": "exec.local.other"}, "nodes.pay.executor_key", "another executor acts"),
        ({"nodes__1__signer_role": None}, "nodes.pay.signer_role", "another signer signs, or none"),
        ({"nodes__1__node_kind": "observe"}, "nodes.pay.node_kind", "it is another kind of step"),
        ({"nodes__1__config__destination": "vault"}, "nodes.pay.config.destination", "the action does something else"),
        ({"nodes__1__config__more": {"deep": [1, 1]}}, "nodes.pay.config.more", "the action does something else"),
        (
            {"edges": [{"from_node": "pay", "to_node": "watch"}]},
            "edges.manual_check -> pay",
            "pay does not wait for manual_check any more",
        ),
    ],
)
def test_what_loosens_a_control_is_marked_and_comes_first(change: dict[str, Any], path: str, danger: str) -> None:
    other = plan_with(**change, title="Another title")
    found = changes(PLAN, other)
    assert dangers(PLAN, other)[path] == danger
    assert found[0].danger
    assert found[-1].path == "title"
    assert not found[-1].danger


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Another"},
        {"risk_controls__hard_cap": "999.99"},
        {"risk_controls__hard_cap": "1000.00"},
        {"risk_controls__max_fee": "1"},
        {"risk_controls__destination_allowlist": ["vault"]},
        {"risk_controls__destination_allowlist": ["0xaa", "vault"]},
        {"approval__required": 3},
        {"approval__valid_seconds": 60},
        {"approval__approvers": ["grace", "heidi"]},
        {"nodes__0__config__instruction": "look twice"},
        {"nodes__1__timeout_policy__observe_seconds": 30},
        {"parameters__1__description": "what for"},
    ],
)
def test_what_tightens_or_only_explains_is_shown_unmarked(change: dict[str, Any]) -> None:
    assert changes(PLAN, plan_with(**change))
    assert dangers(PLAN, plan_with(**change)) == {}


def test_nodes_that_come_and_go_are_shown_with_all_that_is_in_them() -> None:
    without = plan_with(nodes=BASE["nodes"][1:], edges=BASE["edges"][1:])
    gone = {change.path: change for change in changes(PLAN, without)}
    assert gone["nodes.manual_check.config.instruction"] == Change(
        "nodes.manual_check.config.instruction", '"look"', None
    )
    assert dangers(PLAN, without) == {"nodes.manual_check.node_kind": "a person's step is gone"}
    more = plan_with(nodes=[*BASE["nodes"], {**BASE["nodes"][1], "node_key": "pay_again"}])
    assert dangers(PLAN, more) == {"nodes.pay_again.node_kind": "one more action"}


def test_a_step_that_is_taken_out_between_two_others_leaves_them_unordered() -> None:
    steps = [{**BASE["nodes"][1], "node_key": key, "config": {}} for key in ("one", "two", "three")]
    edges = [{"from_node": "one", "to_node": "two"}, {"from_node": "two", "to_node": "three"}]
    old, new = plan_with(nodes=steps, edges=edges), plan_with(nodes=[steps[0], steps[2]], edges=[])
    assert dangers(old, new)["edges.two -> three"] == "three does not wait for one any more"
    joined = plan_with(nodes=[steps[0], steps[2]], edges=[{"from_node": "one", "to_node": "three"}])
    assert dangers(old, joined) == {}


def test_a_new_template_shows_everything_and_what_it_lacks() -> None:
    found = {change.path: change for change in changes(None, PLAN)}
    assert {path for path, change in found.items() if change.after is not None} == set(leaves(PLAN))
    assert dangers(None, PLAN) == {
        "risk_controls.destination_allowlist.0xAA": "money may go there, and could not",
        "risk_controls.destination_allowlist.vault": "money may go there, and could not",
        "nodes.pay.node_kind": "one more action",
    }
    assert dangers(None, plan_with(risk_controls__hard_cap=None))["risk_controls.hard_cap"] == "no amount is too large"


def test_an_order_that_changed_is_a_difference_whatever_was_added_beside_it() -> None:
    turned = plan_with(nodes=[*reversed(BASE["nodes"]), {**BASE["nodes"][0], "node_key": "manual_extra"}])
    [order] = [change for change in changes(PLAN, turned) if change.path == "nodes (order)"]
    assert (order.before, order.after) == ("manual_check, pay, watch", "watch, pay, manual_check")


def test_values_of_another_kind_are_another_value() -> None:
    one = plan_with(nodes__1__config__more=1)
    for other in (True, "1", [1], None):
        assert [each.path for each in changes(one, plan_with(nodes__1__config__more=other))] == [
            "nodes.pay.config.more"
        ]
