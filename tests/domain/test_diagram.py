"""The pictures in the docs are those of the table."""

from __future__ import annotations

from pathlib import Path

from qtg_dagster.domain.diagram import states_page
from qtg_dagster.domain.states import NODE_MOVES

PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def test_the_page_of_states_is_drawn_from_the_table() -> None:
    assert PAGE.read_text() == states_page(), "run: python -m qtg_dagster.domain.diagram > docs/states.md"


def test_every_legal_move_of_a_node_is_in_the_picture() -> None:
    page = states_page()
    assert all(f"    {old} --> {new}\n" in page for old, targets in NODE_MOVES.items() for new in targets)
