"""Filling a node's config from the movement and from what earlier nodes found out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtg_dagster.domain.errors import ConfigRefResolutionError
from qtg_dagster.domain.plans import split_reference

ProviderRefs = Mapping[str, Any]


def resolve_config(
    config: Mapping[str, Any],
    *,
    intent: Mapping[str, Any],
    input_params: Mapping[str, Any],
    completed_refs: Mapping[str, ProviderRefs],
) -> dict[str, Any]:
    """Replace the top-level `$ref:node.field`, `$param:name` and `$intent:name` values of a node's config.

    `completed_refs` maps the key of every completed node of the movement to its provider refs. References inside
    lists or objects are left alone, as the runtime reference has it. Raises `ConfigRefResolutionError` for a
    value that is not there; an empty one counts as not there, because no action may run on half an instruction.
    """
    return {
        name: _resolve(name, value, intent=intent, input_params=input_params, completed_refs=completed_refs)
        for name, value in config.items()
    }


def _resolve(
    name: str,
    value: Any,
    *,
    intent: Mapping[str, Any],
    input_params: Mapping[str, Any],
    completed_refs: Mapping[str, ProviderRefs],
) -> Any:
    kind, target = split_reference(value)
    if not kind:
        return value
    if kind == "ref":
        node_key, _, field = target.partition(".")
        found = completed_refs.get(node_key, {}).get(field)
    else:
        found = (input_params if kind == "param" else intent).get(target)
    if found is None or found == "":
        raise ConfigRefResolutionError(f"config.{name}: {value} has no value")
    return found


def merge_provider_refs(predecessors: Mapping[str, ProviderRefs]) -> dict[str, Any]:
    """The flat `provider_context`: refs of the direct, completed predecessors, later node keys winning."""
    merged: dict[str, Any] = {}
    for node_key in sorted(predecessors):
        merged.update(predecessors[node_key])
    return merged
