"""Stored plan versions, read as plans."""

from __future__ import annotations

from functools import lru_cache

from qtg_dagster.domain.plans import Plan


@lru_cache(maxsize=512)
def parse_plan(document: str) -> Plan:
    """The plan in a stored version's text; versions are immutable, so one text is parsed once, and an edit is another.

    Raises `pydantic.ValidationError` or `PlanInvalid` for rows that are no plan.
    """
    return Plan.model_validate_json(document)
