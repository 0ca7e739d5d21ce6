"""References are filled from what is known, and half an instruction is none."""

from __future__ import annotations

from typing import Any

import pytest

from qtg_dagster.domain.errors import ConfigRefResolutionError
from qtg_dagster.domain.refs import merge_provider_refs, resolve_config

KNOWN: dict[str, Any] = {
    "intent": {"asset": "USDC", "nothing": ""},
    "input_params": {"amount": "12.5", "empty": ""},
    "completed_refs": {"first": {"tx_hash": "0xab", "count": 0, "none": None, "list": ["a"], "flag": False}},
}


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ("$ref:first.tx_hash", "0xab"),
        ("$ref:first.count", 0),
        ("$ref:first.flag", False),
        ("$ref:first.list", ["a"]),
        ("$param:amount", "12.5"),
        ("$intent:asset", "USDC"),
        ("plain", "plain"),
        (7, 7),
        (None, None),
        (["$ref:first.tx_hash"], ["$ref:first.tx_hash"]),
        ({"deep": "$param:amount"}, {"deep": "$param:amount"}),
    ],
)
def test_top_level_references_are_filled_and_all_else_is_left_alone(value: Any, resolved: Any) -> None:
    assert resolve_config({"x": value}, **KNOWN) == {"x": resolved}


@pytest.mark.parametrize(
    "value",
    [
        "$ref:first.missing",
        "$ref:first.none",
        "$ref:other.tx_hash",
        "$param:missing",
        "$param:empty",
        "$intent:missing",
        "$intent:nothing",
    ],
)
def test_a_reference_without_a_value_is_an_error_that_names_it(value: str) -> None:
    with pytest.raises(ConfigRefResolutionError) as error:
        resolve_config({"reference": value}, **KNOWN)
    assert value in str(error.value)
    assert "config.reference" in str(error.value)


def test_a_found_value_is_not_resolved_again() -> None:
    """What a provider reports may look like a reference; it stays data."""
    refs = {"first": {"memo": "$param:amount"}}
    assert resolve_config({"memo": "$ref:first.memo"}, **{**KNOWN, "completed_refs": refs}) == {"memo": "$param:amount"}


def test_later_node_keys_win_in_the_flat_context() -> None:
    merged = merge_provider_refs({"b": {"x": "b", "only_b": 1}, "a": {"x": "a", "only_a": 2}})
    assert merged == {"x": "b", "only_b": 1, "only_a": 2}
    assert merge_provider_refs({}) == {}
