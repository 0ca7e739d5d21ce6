"""Everything Dagster sees of QTG. Loading it reads settings and touches no database."""

from __future__ import annotations

import dagster as dg

from qtg_dagster.jobs.decisions import decision_jobs
from qtg_dagster.jobs.drains import drain_jobs
from qtg_dagster.jobs.movements import movement_jobs
from qtg_dagster.settings import Settings, load_settings
from resources import ResourceSet
from sensors.drains import drain_sensors


def build_definitions(settings: Settings, resources: ResourceSet) -> dg.Definitions:
    """All definitions, for these settings' flags and intervals and with these resources."""
    return dg.Definitions(
        jobs=[*drain_jobs.values(), *movement_jobs, *decision_jobs],
        sensors=drain_sensors(settings),
        resources=resources.by_key(),
    )


defs = build_definitions(load_settings(), ResourceSet.wired())
