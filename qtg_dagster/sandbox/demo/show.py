"""The demo on a terminal: a live table of nodes, and the balance sheet at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.sandbox.demo.scenario import Sample
from qtg_dagster.sandbox.demo.sheet import Line
from qtg_dagster.store.views import MovementView, NodeView

_STYLES = {
    NodeState.COMPLETED: "green",
    NodeState.FAILED: "bold red",
    NodeState.UNKNOWN: "bold magenta",
    NodeState.SUBMITTING: "yellow",
    NodeState.SUBMITTED: "yellow",
    NodeState.OBSERVING: "cyan",
    NodeState.READY: "bold",
    NodeState.BLOCKED: "dim",
}


def movements_table(samples: Mapping[str, Sample], movements: Sequence[MovementView]) -> Table:
    """Every node of every movement with its state, its time and what is known of it."""
    table = Table(title="Movements", title_justify="left", expand=False)
    for column in ("movement", "node", "state", "seconds", "known"):
        table.add_column(column, overflow="fold")
    for movement in movements:
        heading = Text(samples[movement.request_id].title, style="bold")
        heading.append(f"  {movement.request_state}", style=_request_style(movement.request_state))
        table.add_row(heading, "", "", _seconds(movement.approved_at, movement.finished_at), movement.request_id)
        for node in movement.nodes:
            state = Text(node.node_state, style=_STYLES.get(node.node_state, ""))
            table.add_row("", node.node_key, state, _seconds(node.started_at, node.completed_at), _known(node))
        table.add_section()
    return table


def sheet_table(lines: Sequence[Line], fees: Amount) -> Table:
    """Balances before and after; the last column says whether the change is what the movements say."""
    table = Table(title=f"Balances; exchanges kept {fees} in withdrawal fees", title_justify="left")
    for column in ("place", "asset", "before", "after", "change", "movements say", ""):
        table.add_column(column, justify="left" if column in ("place", "asset", "") else "right", overflow="fold")
    for line in lines:
        verdict = Text("agrees", style="green") if line.agrees else Text("DIFFERS", style="bold red")
        amounts = (line.before, line.after, line.change, line.expected_change)
        table.add_row(line.place, line.asset, *(amount.to_text() for amount in amounts), verdict)
    return table


def _known(node: NodeView) -> str:
    if node.node_state is NodeState.UNKNOWN or (node.error_message and node.node_state is not NodeState.COMPLETED):
        return f"{node.error_code}: {node.error_message or ''}"[:110]
    names = ("exchange_withdrawal_id", "tx_hash", "received_amount", "credited_amount", "finalized_block")
    known = [f"{name}={_short(node.provider_refs[name])}" for name in names if name in node.provider_refs]
    return " ".join(known)


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:10]}…{text[-6:]}" if text.startswith("0x") and len(text) > 42 else text


def _request_style(state: RequestState) -> str:
    return {RequestState.COMPLETED: "green", RequestState.FAILED: "bold red"}.get(state, "yellow")


def _seconds(start: datetime | None, end: datetime | None) -> str:
    return "" if start is None else f"{((end or datetime.now(UTC)) - start).total_seconds():.1f}"
