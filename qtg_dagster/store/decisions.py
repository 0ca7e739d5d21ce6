"""What people decide, within one transaction: each part in a module of its own."""

from __future__ import annotations

from qtg_dagster.store.adoption import Adoptions
from qtg_dagster.store.decided import Decided
from qtg_dagster.store.requests import Requests
from qtg_dagster.store.templates import PlanVersions


class PostgresDecisions(Requests, Decided, PlanVersions, Adoptions):
    """What `engine.ports.Decisions` asks for."""
