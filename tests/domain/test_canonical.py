"""One content, one text, one hash; and no hash for two purposes."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.canonical import canonical_json, digest
from qtg_dagster.domain.journal import StepKind

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@given(documents)
def test_the_order_of_keys_changes_nothing(document: Any) -> None:
    assert canonical_json(document) == canonical_json(reordered(document))


@given(documents)
def test_canonical_json_is_json_of_the_same_value(document: Any) -> None:
    assert json.loads(canonical_json(document)) == document


@given(documents, documents)
def test_equal_text_means_equal_content(left: Any, right: Any) -> None:
    same_text = canonical_json(left) == canonical_json(right)
    assert same_text == (json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True))


@pytest.mark.parametrize(
    ("document", "path"), [(1.5, r"\$"), ({"a": [1, {"b": 0.1}]}, r"\$\.a\[1\]\.b"), ((float("nan"),), r"\$\[0\]")]
)
def test_a_float_is_refused_with_its_place(document: Any, path: str) -> None:
    with pytest.raises(TypeError, match=path):
        canonical_json(document)


@pytest.mark.parametrize("document", [{1: "a"}, {None: 1}, {"a": {True: 1}}])
def test_only_text_keys_are_taken(document: Any) -> None:
    with pytest.raises(TypeError, match="not text"):
        canonical_json(document)


@pytest.mark.parametrize("document", [Decimal(1), object(), {1, 2}, b"x"])
def test_what_json_cannot_carry_is_refused(document: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(document)


def test_an_enum_is_its_text() -> None:
    assert canonical_json({"kind": StepKind.INTENT}) == '{"kind":"intent"}'


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")), documents)
def test_purposes_are_kept_apart(one: str, other: str, document: Any) -> None:
    assert (digest(one, document) == digest(other, document)) == (one == other)


def test_purpose_and_content_cannot_be_shifted_into_each_other() -> None:
    assert digest("a", "b") != digest('a"b', "")
    assert digest("qtg.graph.v1", {}) != digest("qtg.graph.v1{", "}")


def test_the_digest_stays_what_it_was() -> None:
    """A changed digest would make every approved movement drift."""
    assert digest("qtg.test", {"b": 1, "a": ["x"]}) == (
        "33c5bf4fb4a7791e45f681acc4296927298951c8d8ecd6fe33e3e47f2fee95d0"
    )
