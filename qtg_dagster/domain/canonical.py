"""One spelling of JSON for hashing, and domain-separated SHA-256 over it."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Spell `value` as JSON in exactly one way: keys sorted, no spaces, no floats.

    Raises `TypeError` for floats: their text depends on who prints them, so money and hashes never carry one.
    """
    _refuse_floats(value, "$")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(purpose: str, value: Any) -> str:
    """Hex SHA-256 of `value`, bound to `purpose` so that equal content never hashes alike for two purposes."""
    body = canonical_json(value).encode()
    head = purpose.encode()
    return hashlib.sha256(len(head).to_bytes(4, "big") + head + body).hexdigest()


def _refuse_floats(value: Any, path: str) -> None:
    if isinstance(value, float):
        raise TypeError(f"{path}: a float has no canonical text; give a decimal string")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path}: key {key!r} is not text")
            _refuse_floats(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_floats(item, f"{path}[{index}]")
