"""Every answer that an executor of a lane gives comes with evidence: the engine takes a final one without for none."""

from __future__ import annotations

import ast
from pathlib import Path

from qtg_dagster import lanes

_ROOT = Path(lanes.__file__).parent


def answers() -> list[tuple[str, ast.Call]]:
    """Where the lanes make an `ExecutionResult`."""
    return [
        (f"{path.relative_to(_ROOT)}:{node.lineno}", node)
        for path in sorted(_ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ExecutionResult"
    ]


def test_no_answer_is_made_without_evidence() -> None:
    made = answers()
    assert len(made) > 20, "the lanes were found"
    assert [place for place, call in made if "evidence" not in {keyword.arg for keyword in call.keywords}] == []
