"""Reading documents that a stranger may have written: wholly right, or not at all."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from qtg_dagster.domain.contract import PROTOCOL_VERSION
from qtg_dagster.domain.plans import Frozen

D = TypeVar("D", bound=Frozen)
WRONG_VERSION, MALFORMED = "WRONG_VERSION", "MALFORMED"


class Unreadable(Exception):
    """Not the document that was expected; `code` is WRONG_VERSION or MALFORMED. Quotes nothing of its content."""

    def __init__(self, code: str, problem: str) -> None:
        super().__init__(problem)
        self.code = code


def read_document(body: bytes, kind: type[D]) -> D:
    """The document, every field of the type it should have; raises `Unreadable`."""
    try:
        # Not the standard library's: its depth is bounded by what this process can bear, which others may have raised.
        raw = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise Unreadable(MALFORMED, "not JSON") from None
    if not isinstance(raw, dict):
        raise Unreadable(MALFORMED, f"a JSON object was expected, not {type(raw).__name__}")
    version = raw.get("protocol_version")
    if version != PROTOCOL_VERSION:
        said = version if isinstance(version, str) and len(version) <= 16 else type(version).__name__
        raise Unreadable(WRONG_VERSION, f"protocol_version: {said} is not spoken here; use {PROTOCOL_VERSION}")
    try:
        return kind.model_validate_json(body, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[:5]
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)
        raise Unreadable(MALFORMED, f"not a {kind.__name__}: {wrong}") from None
