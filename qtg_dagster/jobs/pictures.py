"""A plan's DAG and a movement's nodes as Markdown, for run and asset pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter

_SYMBOLS = {
    "COMPLETED": "✓",
    "FAILED": "✗",
    "UNKNOWN": "?",
    "SKIPPED": "↷",
    "CANCELLED": "⊘",
    "READY": "○",
    "BLOCKED": "·",
}


def dag_picture(nodes: Mapping[str, str], edges: Iterable[tuple[str, str]]) -> str:
    """The DAG as text, one line a node: what it waits for stands above it, in the order in which nodes may run.

    `nodes` is node key -> label.
    """
    waits: dict[str, list[str]] = {key: [] for key in nodes}
    for before, after in edges:
        waits[after].append(before)
    lines: list[str] = []
    previous: str | None = None
    for key in TopologicalSorter(waits).static_order():
        if previous is not None:
            after_previous = waits[key] == [previous]
            lines.append("  │" if after_previous else "")
        name = f"{nodes[key]}"
        above = f"   ◄─ {', '.join(waits[key])}" if waits[key] and waits[key] != [previous] else ""
        lines.append(f"{name}{above}")
        previous = key
    return "```text\n" + "\n".join(lines) + "\n```"


def node_label(key: str, state: str) -> str:
    """A node in the picture, with its state."""
    return f"[{_SYMBOLS.get(state, '▸')}] {key}  {state}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    body = [" | ".join(_cell(value) for value in row) for row in rows]
    lines = [" | ".join(head), " | ".join("---" for _ in head), *body]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")
