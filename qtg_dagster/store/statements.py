"""The SQL of the engine, one file a statement under `sql/`."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from sqlalchemy import TextClause, text


@cache
def statement(name: str) -> TextClause:
    """The statement in `sql/<name>.sql`."""
    return text((files("qtg_dagster.store") / "sql" / f"{name}.sql").read_text())


def as_json(value: Any) -> str:
    """Text for a jsonb parameter; raises `TypeError` or `ValueError` for what JSON cannot carry exactly."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def json_problem(value: Any) -> str | None:
    """Why a jsonb column cannot hold `value`; None when it can. Times count as text."""
    try:
        text = json.dumps(value, default=_as_text, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "a NUL character" if "\\u0000" in text else None


def _as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} {value!r} is not JSON")
