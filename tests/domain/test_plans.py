"""Templates are well-formed DAGs, and their hashes tell every difference that may move money."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from qtg_dagster.domain.canonical import digest
from qtg_dagster.domain.errors import PlanInvalid
from qtg_dagster.domain.plans import (
    Plan,
    graph_hash,
    movement_hashes,
    split_reference,
)


def a_node(key: str, kind: str = "action", **rest: Any) -> dict[str, Any]:
    executor = None if kind == "manual" else "exec.local.move"
    return {"node_key": key, "node_kind": kind, "action_type": "move", "executor_key": executor, **rest}


def a_document(*nodes: dict[str, Any], edges: tuple[tuple[str, str], ...] = (), **rest: Any) -> dict[str, Any]:
    return {
        "template_key": "sample",
        "title": "Sample",
        "parameters": [{"name": "amount", "type": "amount", "asset": "USDC"}],
        "nodes": list(nodes),
        "edges": [{"from_node": before, "to_node": after} for before, after in edges],
        **rest,
    }


def refused(document: dict[str, Any], *, field: str) -> PlanInvalid:
    with pytest.raises(PlanInvalid) as caught:
        Plan.model_validate(document)
    assert caught.value.field == field
    return caught.value


def test_a_cycle_is_refused_and_spelled_out() -> None:
    error = refused(a_document(a_node("a"), a_node("b"), edges=(("a", "b"), ("b", "a"))), field="edges")
    assert "a -> b -> a" in str(error) or "b -> a -> b" in str(error)


@pytest.mark.parametrize(
    ("edges", "problem"),
    [
        ((("a", "a"),), "cycle"),
        ((("a", "b"), ("b", "c"), ("c", "a")), "cycle"),
        ((("a", "x"),), "x is not a node"),
        ((("x", "a"),), "x is not a node"),
        ((("a", "b"), ("a", "b")), "stands twice"),
    ],
)
def test_edges_join_known_nodes_once_and_forward(edges: tuple[tuple[str, str], ...], problem: str) -> None:
    error = refused(a_document(a_node("a"), a_node("b"), a_node("c"), edges=edges), field="edges")
    assert problem in str(error)


def test_node_keys_are_unique() -> None:
    refused(a_document(a_node("a"), a_node("a")), field="nodes")


def test_parameters_are_unique() -> None:
    refused(a_document(a_node("a"), parameters=[{"name": "x"}, {"name": "x"}]), field="parameters")


@pytest.mark.parametrize(
    ("key", "kind"),
    [("manual_step", "action"), ("manual_step", "observe"), ("step", "manual"), ("manualstep", "manual")],
)
def test_manual_nodes_and_only_they_carry_the_prefix(key: str, kind: str) -> None:
    refused(a_document(a_node(key, kind)), field=f"nodes.{key}")


def test_every_node_but_a_manual_one_has_an_executor() -> None:
    refused(a_document(a_node("a", executor_key=None)), field="nodes.a.executor_key")
    refused(
        a_document(a_node("manual_a", "manual", executor_key="exec.local.move")), field="nodes.manual_a.executor_key"
    )


@pytest.mark.parametrize(
    "value",
    [
        "$ref:b.x",
        "$ref:a.x",
        "$ref:nowhere.x",
        "$param:unknown",
        "$ref:a",
        "$ref:",
        "$ref:a.",
        "$param:",
        "$parm:amount",
        "$ref:a-b.x",
        "$ref:a.x.y",
        "$param:amount ",
        " $param:amount",
        "${amount}",
        "$amount",
    ],
)
def test_a_reference_that_cannot_hold_is_refused_when_the_template_is_read(value: str) -> None:
    refused(
        a_document(a_node("a", config={"reference": value}), a_node("b"), edges=(("a", "b"),)),
        field="nodes.a.config.reference",
    )


def test_references_reach_every_ancestor_and_no_sibling() -> None:
    nodes = [a_node("a"), a_node("b"), a_node("c", config={"far": "$ref:a.x", "in": "$intent:amount"}), a_node("d")]
    edges = (("a", "b"), ("b", "c"))
    Plan.model_validate(a_document(*nodes, edges=edges))
    nodes[2]["config"] = {"far": "$ref:d.x"}
    refused(a_document(*nodes, edges=edges), field="nodes.c.config.far")


@pytest.mark.parametrize("value", [1.5, {"deep": [0.1]}, float("nan")])
def test_a_float_in_a_config_is_refused(value: Any) -> None:
    refused(a_document(a_node("a", config={"amount": value})), field="nodes.a.config")


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": []},
        {"nodes": [a_node(f"n{number}") for number in range(201)]},
        {"title": ""},
        {"template_key": "Sample"},
        {"template_key": "sample\n"},
        {"nodes": [a_node("a", executor_key="exec.local")]},
        {"nodes": [a_node("a", executor_key="exec.local.move; drop")]},
        {"nodes": [a_node("a", action_type="Move It")]},
        {"nodes": [a_node("a", timeout_policy={"observe_seconds": 0})]},
        {"nodes": [a_node("a", unheard_of=1)]},
        {"unheard_of": 1},
        {"risk_controls": {"hardcap": "5"}},
    ],
)
def test_what_does_not_belong_in_a_template_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Plan.model_validate({**a_document(a_node("a")), **change})


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("$ref:a.b", ("ref", "a.b")),
        ("$param:amount", ("param", "amount")),
        ("$intent:x_1", ("intent", "x_1")),
        ("plain", ("", "")),
        ("a $ref:b.c", ("", "")),
        ("$ref:a.b\n", ("", "")),
        (7, ("", "")),
        (None, ("", "")),
        (["$ref:a.b"], ("", "")),
    ],
)
def test_only_whole_values_are_references(value: Any, parts: tuple[str, str]) -> None:
    assert split_reference(value) == parts


@st.composite
def dags(draw: st.DrawFn) -> dict[str, Any]:
    """Documents of any DAG of up to nine nodes, nodes and edges in any order."""
    size = draw(st.integers(1, 9))
    keys = [f"n{number}" for number in range(size)]
    pairs = [(keys[i], keys[j]) for j in range(size) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    nodes = [a_node(key, draw(st.sampled_from(["action", "observe"]))) for key in draw(st.permutations(keys))]
    return a_document(*nodes, edges=tuple(edges))


@given(dags())
def test_every_dag_is_accepted_and_its_neighbourhoods_agree(document: dict[str, Any]) -> None:
    plan = Plan.model_validate(document)
    edges = {(edge.from_node, edge.to_node) for edge in plan.edges}
    assert {(b, a) for a, before in plan.predecessors().items() for b in before} == edges
    assert {(b, a) for b, after in plan.successors().items() for a in after} == edges
    assert plan.predecessors().keys() == plan.successors().keys() == {node.node_key for node in plan.nodes}


@given(dags(), st.data())
def test_an_edge_that_closes_a_circle_is_always_found(document: dict[str, Any], data: st.DataObject) -> None:
    if document["edges"]:
        edge = data.draw(st.sampled_from(document["edges"]))
        document["edges"].append({"from_node": edge["to_node"], "to_node": edge["from_node"]})
        refused(document, field="edges")


@given(dags(), st.randoms())
def test_the_graph_hash_does_not_depend_on_the_order_of_writing(document: dict[str, Any], rnd: random.Random) -> None:
    shuffled = {**document, "nodes": list(document["nodes"]), "edges": list(document["edges"])}
    rnd.shuffle(shuffled["nodes"])
    rnd.shuffle(shuffled["edges"])
    assert graph_hash(Plan.model_validate(shuffled)) == graph_hash(Plan.model_validate(document))


BASE = a_document(
    a_node("a", config={"amount": "$param:amount", "destination": "0xallowed"}, signer_role="desk"),
    a_node("b", "observe", timeout_policy={"observe_seconds": 1800}),
    edges=(("a", "b"),),
    risk_controls={"hard_cap": "100", "max_fee": "1", "destination_allowlist": ["0xallowed"]},
)
DOCUMENTS: dict[str, Any] = {
    "intent": {"amount": "5"},
    "input_params": {"amount": "5"},
    "resolved_bindings": {"x": "y"},
}

IN_THE_GRAPH = [
    ("nodes", 0, {"node_key": "z"}),
    ("nodes", 0, {"node_kind": "observe"}),
    ("nodes", 0, {"action_type": "other"}),
    ("nodes", 0, {"executor_key": "exec.other.move"}),
    ("nodes", 0, {"signer_role": "other"}),
    ("nodes", 0, {"signer_role": None}),
    ("nodes", 0, {"config": {"amount": "$param:amount", "destination": "0xother"}}),
    ("nodes", 0, {"config": {"amount": "$param:amount"}}),
]
OUTSIDE_THE_GRAPH = [
    ("nodes", 1, {"timeout_policy": {"observe_seconds": 60}}),
    ("nodes", 1, {"timeout_policy": {}}),
    ("risk_controls", None, {"hard_cap": "1000"}),
    ("risk_controls", None, {"max_fee": None}),
    ("risk_controls", None, {"destination_allowlist": ["0xallowed", "0xevil"]}),
    ("title", None, "Other"),
    ("description", None, "Other"),
    ("parameters", None, [{"name": "amount", "type": "text"}]),
]


def changed(part: str, index: int | None, change: Any) -> Plan:
    document = {**BASE}
    if part == "nodes":
        nodes = [dict(node) for node in BASE["nodes"]]
        nodes[index or 0].update(change)
        document["nodes"] = nodes
        if "node_key" in change:
            document["edges"] = [{"from_node": change["node_key"], "to_node": "b"}]
    elif isinstance(change, dict):
        document[part] = {**BASE[part], **change}
    else:
        document[part] = change
    return Plan.model_validate(document)


STANDING = Plan.model_validate(BASE)


@pytest.mark.parametrize(("part", "index", "change"), IN_THE_GRAPH)
def test_every_field_of_the_graph_changes_all_three_hashes(part: str, index: int | None, change: Any) -> None:
    plan = changed(part, index, change)
    assert graph_hash(plan) != graph_hash(STANDING)
    assert movement_hashes(plan, **DOCUMENTS).compiled_plan != movement_hashes(STANDING, **DOCUMENTS).compiled_plan
    assert movement_hashes(plan, **DOCUMENTS).approval != movement_hashes(STANDING, **DOCUMENTS).approval


@pytest.mark.parametrize(("part", "index", "change"), OUTSIDE_THE_GRAPH)
def test_what_is_outside_the_graph_changes_the_approval_alone(part: str, index: int | None, change: Any) -> None:
    plan = changed(part, index, change)
    assert graph_hash(plan) == graph_hash(STANDING)
    assert movement_hashes(plan, **DOCUMENTS).compiled_plan == movement_hashes(STANDING, **DOCUMENTS).compiled_plan
    assert movement_hashes(plan, **DOCUMENTS).approval != movement_hashes(STANDING, **DOCUMENTS).approval


def test_a_missing_edge_changes_the_graph() -> None:
    plan = Plan.model_validate({**BASE, "edges": []})
    assert graph_hash(plan) != graph_hash(STANDING)


@pytest.mark.parametrize("which", ["intent", "input_params", "resolved_bindings"])
def test_the_movements_own_values_are_bound_by_both_hashes(which: str) -> None:
    other = {**DOCUMENTS, which: {**DOCUMENTS[which], "more": "z"}}
    assert movement_hashes(STANDING, **other).compiled_plan != movement_hashes(STANDING, **DOCUMENTS).compiled_plan
    assert movement_hashes(STANDING, **other).approval != movement_hashes(STANDING, **DOCUMENTS).approval


def test_the_three_hashes_are_never_taken_for_each_other() -> None:
    hashes = {
        graph_hash(STANDING),
        movement_hashes(STANDING, {}, {}, {}).compiled_plan,
        movement_hashes(STANDING, {}, {}, {}).approval,
    }
    assert len(hashes) == 3


@given(dags())
def test_reading_a_plan_back_changes_no_hash(document: dict[str, Any]) -> None:
    plan = Plan.model_validate(document)
    again = Plan.model_validate_json(plan.model_dump_json())
    assert again == plan
    assert movement_hashes(again, **DOCUMENTS).approval == movement_hashes(plan, **DOCUMENTS).approval


def test_a_changed_copy_of_a_plan_is_another_plan_to_the_hashes() -> None:
    plan = Plan.model_validate(a_document(a_node("a"), a_node("b"), edges=(("a", "b"),)))
    documents: tuple[dict[str, str], dict[str, str], dict[str, str]] = ({"asset": "USDC"}, {}, {"role": "ops"})
    before = movement_hashes(plan, *documents).compiled_plan, movement_hashes(plan, *documents).approval
    renamed = tuple(node.model_copy(update={"action_type": "another"}) for node in plan.nodes)
    changed = plan.model_copy(update={"nodes": renamed})
    after = movement_hashes(changed, *documents).compiled_plan, movement_hashes(changed, *documents).approval
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert changed.node("a").action_type == "another"


def test_the_hashes_are_of_one_canonical_document() -> None:
    plan = Plan.model_validate(a_document(a_node("a"), a_node("b"), edges=(("a", "b"),)))
    intent, parameters, bindings = {"asset": "USDC", "amount": "1.5"}, {"to": "binance"}, {"executor:a": "exec.local.a"}
    around = {"intent": intent, "input_params": parameters, "resolved_bindings": bindings}
    graph = json.loads(plan.graph_text)
    whole = plan.model_dump(mode="json", exclude={"approval"})  # a policy that asks for nothing is not said
    assert movement_hashes(plan, intent, parameters, bindings).compiled_plan == digest(
        "qtg.compiled-plan.v1", {"graph": graph, **around}
    )
    assert movement_hashes(plan, intent, parameters, bindings).approval == digest(
        "qtg.approval.v1", {"plan": whole, **around}
    )
