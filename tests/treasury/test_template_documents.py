"""Templates as people write them: what is written reads as the same plan, and what is ambiguous is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Plan
from qtg_dagster.treasury.template_documents import read_plan, write_plan
from tests.domain.test_plan_diff import PLAN, any_plan


@given(any_plan())
def test_a_plan_that_was_written_down_reads_as_the_same_plan(plan: Plan) -> None:
    assert read_plan(write_plan(plan)).whole_text == plan.whole_text
    assert read_plan(json.dumps(plan.model_dump(mode="json"))).whole_text == plan.whole_text


def test_the_template_in_the_documentation_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "templates.md").read_text()
    [example] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    plan = read_plan(example)
    assert plan.node("transfer").config["amount"] == "$param:amount"
    assert plan.approval.required == 2


def test_what_goes_without_saying_is_not_written() -> None:
    written = write_plan(PLAN)
    assert written.startswith("template_key: rent\ntitle: Rent\n")
    assert "self_approval" not in written


@pytest.mark.parametrize(
    ("document", "field", "said"),
    [
        ("title: one\ntitle: two", "document", "'title' stands twice"),
        ("risk_controls: {hard_cap: '1', hard_cap: '100000'}", "document", "'hard_cap' stands twice"),
        ("1: x", "document", "is not text"),
        ("? [a]\n: x", "document", "is not text"),
        ("a: &a [*a]", "document", "neither YAML nor JSON"),
        ("a: [", "document", "neither YAML nor JSON"),
        ("!!python/object/apply:os.system [true]", "document", "neither YAML nor JSON"),
        ("", "document", "dictionary"),
        ("{template_key: x, title: x, nodes: [], surplus: 1}", "document.nodes", "at least 1"),
    ],
)
def test_what_is_no_template_is_refused_with_the_place(document: str, field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_plan(document)
    assert refused.value.field == field
    assert said in refused.value.problem


def test_a_number_where_money_is_text_is_refused() -> None:
    """1e3 and 0.1 would be numbers to YAML; amounts are text."""
    document = json.loads(PLAN.model_dump_json())
    document["risk_controls"]["hard_cap"] = 0.1
    with pytest.raises(InvalidInput) as refused:
        read_plan(json.dumps(document))
    assert refused.value.field == "document.risk_controls.hard_cap"
