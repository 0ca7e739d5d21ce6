"""The SQL of the engine, one file a statement under `sql/`."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from sqlalchemy import TextClause, text


@cache
def statement(name: str) -> TextClause:
    """The statement in `sql/<name>.sql`."""
    return text((files("qtg_dagster.store") / "sql" / f"{name}.sql").read_text())


def as_json(value: Any) -> str:
    """Text for a jsonb parameter; raises `TypeError` for what JSON cannot carry exactly."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
