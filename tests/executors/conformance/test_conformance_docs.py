"""The page says what the kit does."""

from __future__ import annotations

import re

from qtg_dagster.executors.conformance import CLAUSES, Declared, Knob
from qtg_dagster.host.paths import project_root

_PAGE = (project_root() / "docs" / "conformance.md").read_text()


def _column(heading: str) -> list[str]:
    table = _PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `([\w.-]+)", table, re.MULTILINE)


def test_the_page_has_every_clause_in_the_kits_words_and_order() -> None:
    rows = [f"| `{clause}` | {words.statement} | {words.why} |" for clause, words in CLAUSES.items()]
    assert "\n".join(rows) in _PAGE
    assert _column("clause") == [clause.value for clause in CLAUSES]


def test_the_page_has_every_knob_and_declaration() -> None:
    assert set(_column("knob")) == {knob.value for knob in Knob}
    assert set(_column("declaration")) == set(Declared.model_fields)
