"""Runs of workers that failed outside a pass: what Dagster knows and no heartbeat tells."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg

from assets.windows import FAILURE_TAG
from qtg_dagster.store.core_group import FailedRun

_LOOK_BACK = timedelta(minutes=10)
_MOST = 10


def failed_outside(instance: dg.DagsterInstance, job_name: str, worker: str) -> list[FailedRun]:
    """Recent failures of a job that nobody has explained or noticed yet."""
    failed = dg.RunsFilter(
        job_name=job_name, statuses=[dg.DagsterRunStatus.FAILURE], updated_after=datetime.now(UTC) - _LOOK_BACK
    )
    return [
        FailedRun(
            worker,
            record.dagster_run.run_id,
            record.create_timestamp.replace(tzinfo=record.create_timestamp.tzinfo or UTC),
            f"run {record.dagster_run.run_id[:8]} failed outside a pass",
        )
        for record in instance.get_run_records(failed, limit=_MOST)
        if FAILURE_TAG not in record.dagster_run.tags
    ]


def mark_noticed(instance: dg.DagsterInstance, runs: Sequence[FailedRun]) -> None:
    """So that the next look does not find them again."""
    for run in runs:
        instance.add_run_tags(run.run_id, {FAILURE_TAG: "noticed"})
