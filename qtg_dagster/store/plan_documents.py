"""Stored plan versions, read as plans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.requests import StoredPlan


@lru_cache(maxsize=512)
def parse_plan(document: str) -> Plan:
    """The plan in a stored version's text; versions are immutable, so one text is parsed once, and an edit is another.

    Raises `pydantic.ValidationError` or `PlanInvalid` for rows that are no plan.
    """
    return Plan.model_validate_json(document)


def stored_plan(row: Mapping[str, Any]) -> StoredPlan:
    """The plan of a row of `find_plan.sql` or `read_request.sql`."""
    return StoredPlan(row["plan_version_id"], row["version"], parse_plan(row["plan"]), json.loads(row["node_ids"]))
