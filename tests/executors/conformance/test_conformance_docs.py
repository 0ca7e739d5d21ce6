"""The page says what the kit does."""

from __future__ import annotations

import re

from qtg_dagster.executors.conformance import CLAUSES, Clause, Declared, Knob
from qtg_dagster.host.paths import project_root
from tests.executors.conformance.shipped import EXEMPT, SHIPPED

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


def test_the_page_has_every_shipped_executor_with_what_it_is_exempt_from() -> None:
    for key in SHIPPED:
        exempt = ", ".join(f"`{clause}`" for clause in Clause if clause in EXEMPT[key]) or "none"
        assert f"| `{key}` | {len(Clause) - len(EXEMPT[key])} | {exempt} |" in _PAGE
    assert sorted(_column("executor")) == sorted(SHIPPED)
