"""The engine's SQL: what psycopg remembers, and that taking spaces out of it changes nothing."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

from qtg_dagster.store.statements import native

NAMES = sorted(each.name.removesuffix(".sql") for each in files("qtg_dagster.store").joinpath("sql").iterdir())


CHOOSING = ("choose_nodes", "claim_due_observations", "claim_ready", "claim_recoverable")


@pytest.mark.parametrize("names", [(name,) for name in NAMES] + [(name, "work_of_chosen") for name in CHOOSING])
def test_a_statement_is_short_enough_to_be_remembered(names: tuple[str, ...]) -> None:
    assert len(native(*names)) <= MAX_CACHED_STATEMENT_LENGTH


@pytest.mark.parametrize("name", NAMES)
def test_no_quoted_text_has_a_space_that_is_taken_out(name: str) -> None:
    source = re.sub(r"--[^\n]*", "", files("qtg_dagster.store").joinpath("sql", f"{name}.sql").read_text())
    quoted = re.findall(r"'[^']*'", source)
    assert [each for each in quoted if re.search(r" [(),=]|[(),=] ", each) or "--" in each] == []
