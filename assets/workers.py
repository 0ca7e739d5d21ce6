"""The workers as an asset: what the core group and the heartbeats say, as checks."""

import dagster as dg

from assets.checks import Finding
from assets.keys import GROUP, WORKERS
from qtg_dagster.domain.core_group import CoreStanding
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.upkeep.workers import Survey, survey_workers
from resources import DatabaseResource, SettingsResource

CORE_GROUP_RUNS = "core_group_runs"
WORKERS_BEAT = "workers_beat"

workers = dg.AssetSpec(
    WORKERS,
    group_name=GROUP,
    kinds={"postgres"},
    description="Every worker's signs of life, kept in qtg.worker_heartbeats, and deaths of core workers.",
)


async def find_workers(database: Database, settings: Settings) -> list[Finding]:
    """Does the core group run, and does every worker show signs of life?"""
    survey = await survey_workers(database, settings, asked_by="the asset check of workers")
    return [_core_finding(survey), _beat_finding(survey)]


def _core_finding(survey: Survey) -> Finding:
    group = survey.group
    halted = group.standing is CoreStanding.HALTED
    since = {f"{group.standing} since entry {group.last.id}": group.explain()} if group.last else {"running": "no fall"}
    return Finding(WORKERS, CORE_GROUP_RUNS, not halted, dg.AssetCheckSeverity.ERROR, since)


def _beat_finding(survey: Survey) -> Finding:
    alarms = {f"{one.spec.name} {one.state}": one.told() for one in survey.alarms()}
    severe = any(one.spec.core for one in survey.alarms())
    severity = dg.AssetCheckSeverity.ERROR if severe else dg.AssetCheckSeverity.WARN
    return Finding(WORKERS, WORKERS_BEAT, not alarms, severity, alarms or {"workers": str(len(survey.workers))})


@dg.asset_check(
    asset=WORKERS, name=CORE_GROUP_RUNS, description="The core workers have not been halted by repeated deaths."
)
def core_group_runs(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_workers(opened, now))[0].result()


@dg.asset_check(asset=WORKERS, name=WORKERS_BEAT, description="No worker is overdue, failing or dead.")
def workers_beat(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_workers(opened, now))[1].result()


worker_checks = (core_group_runs, workers_beat)
