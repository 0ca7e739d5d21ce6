"""One spelling of JSON for hashing, domain-separated SHA-256 over it, and what JSON cannot carry."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any


def canonical_json(value: Any) -> str:
    """Spell `value` as JSON in exactly one way: keys sorted, no spaces, no floats.

    Raises `TypeError` for floats: their text depends on who prints them, so money and hashes never carry one.
    """
    _refuse_floats(value, "$")
    return _ENCODE(value)


def digest(purpose: str, value: Any) -> str:
    """Hex SHA-256 of `value`, bound to `purpose` so that equal content never hashes alike for two purposes."""
    return digest_text(purpose, canonical_json(value))


def digest_text(purpose: str, canonical: str) -> str:
    """As `digest`, for a value whose canonical text is at hand."""
    body = canonical.encode()
    head = purpose.encode()
    return hashlib.sha256(len(head).to_bytes(4, "big") + head + body).hexdigest()


def json_problem(value: Any) -> str | None:
    """Why `value` cannot be stored as JSON; None when it can. Times count as text."""
    if not value:
        return None
    try:
        text = _SPELL(value)
        text.encode("utf-8")
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "a NUL character" if "\\u0000" in text else None


def _as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} {value!r} is not JSON")


_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_SPELL = json.JSONEncoder(default=_as_text, allow_nan=False, ensure_ascii=False).encode
_EXACT = (str, int, bool, type(None))


def _refuse_floats(value: Any, path: str) -> None:
    if type(value) in _EXACT:
        return
    if isinstance(value, float):
        raise TypeError(f"{path}: a float has no canonical text; give a decimal string")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path}: key {key!r} is not text")
            if type(item) not in _EXACT:
                _refuse_floats(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_floats(item, f"{path}[{index}]")
