"""Movements that came to rest: one materialization each, reported after the fact by a sensor."""

from __future__ import annotations

from datetime import datetime

import dagster as dg

from assets.keys import GROUP, MOVEMENTS
from qtg_dagster.jobs.pictures import dag_picture, node_label, table
from qtg_dagster.store.views import MovementView, NodeView

movements = dg.AssetSpec(
    MOVEMENTS,
    group_name=GROUP,
    kinds={"postgres"},
    description="Every movement that ended, failed or needs a person: amounts, transactions, fees and durations.",
)


def materialization(movement: MovementView) -> dg.AssetMaterialization:
    """What an operator wants to see of one movement."""
    labels = {node.node_key: node_label(node.node_key, node.node_state) for node in movement.nodes}
    rows = [_row(node) for node in movement.nodes]
    problems = [f"{n.node_key}: {n.error_code} {n.error_message or ''}".strip() for n in movement.nodes if n.error_code]
    last = movement.finished_at or max((n.completed_at for n in movement.nodes if n.completed_at), default=None)
    return dg.AssetMaterialization(
        asset_key=MOVEMENTS,
        description=f"{movement.template_key} {movement.request_state}",
        metadata={
            "request id": movement.request_id,
            "request state": movement.request_state.value,
            "template": f"{movement.template_key} version {movement.template_version}",
            "asset": str(movement.intent.get("asset", "")),
            "amount": str(movement.intent.get("amount", "")),
            "requested by": movement.requested_by,
            "seconds from approval": round(_seconds(movement.approved_at, last) or 0.0, 1),
            "nodes": dg.MetadataValue.md(table(("node", "state", "attempt", "seconds"), rows)),
            "references": dg.MetadataValue.json(
                {n.node_key: n.provider_refs for n in movement.nodes if n.provider_refs}
            ),
            "picture": dg.MetadataValue.md(dag_picture(labels, movement.edges)),
            **({"problems": "; ".join(problems)} if problems else {}),
            **{f"{node.node_key} tx": str(node.provider_refs["tx_hash"]) for node in _with_tx(movement)},
            **_fees(movement),
        },
        tags={"qtg/request_state": movement.request_state.value.lower()},
    )


def _row(node: NodeView) -> tuple[object, ...]:
    seconds = _seconds(node.started_at, node.completed_at)
    return node.node_key, node.node_state.value, node.attempt_no, "" if seconds is None else f"{seconds:.1f}"


def _with_tx(movement: MovementView) -> list[NodeView]:
    return [node for node in movement.nodes if node.node_kind == "action" and "tx_hash" in node.provider_refs]


def _fees(movement: MovementView) -> dict[str, str]:
    return {
        f"{node.node_key} {name.replace('_', ' ')}": str(value)
        for node in movement.nodes
        for name, value in node.provider_refs.items()
        if name.endswith("_fee")
    }


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None
