"""The SQL of the engine, one file a statement under `sql/`."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import TextClause

_COMMENT = re.compile(r"--[^\n]*")
#: Spaces that mean nothing; no statement has such a place within quotes.
_SPACED = re.compile(r" ?([(),=]) ?")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b")


def _source(name: str) -> str:
    """Without comments and needless spaces, because psycopg remembers only short statements."""
    source = (files("qtg_dagster.store") / "sql" / f"{name}.sql").read_text()
    return _SPACED.sub(r"\1", " ".join(_COMMENT.sub("", source).split()))


@cache
def statement(name: str) -> TextClause:
    """The statement in `sql/<name>.sql`, for SQLAlchemy."""
    from sqlalchemy import text

    return text(_source(name))


@cache
def native(*names: str) -> bytes:
    """The statement in `sql/<name>.sql`, for psycopg; of several files, the one that they make together."""
    whole = " ".join(_source(name) for name in names)
    return _PARAMETER.sub(r"%(\1)s", whole.replace("%", "%%")).encode()


def as_json(value: Any) -> str:
    """Text for a jsonb parameter; raises `TypeError` or `ValueError` for what JSON cannot carry exactly."""
    return _ENCODE(value)


_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
