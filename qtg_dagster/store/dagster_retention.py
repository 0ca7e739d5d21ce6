"""Deleting from Dagster's own tables what nobody looks for any more, a batch a call, in one transaction each.

`DagsterInstance.delete_run` deletes one run in a dozen statements without a common transaction, takes the newest
materialization of an asset with it and leaves the executions of checks behind; of events without a run, and of checks,
nothing is ever deleted. The tables are those of the pinned Dagster; what is deleted of a run is what `delete_run`
deletes and its check executions, and the newest of each asset and check stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from qtg_dagster.domain.retention import Kind
from qtg_dagster.store.database import OnDatabase

ENDED = ("SUCCESS", "FAILURE", "CANCELED")
#: What the web UI shows the newest of, for each asset.
_SHOWN = ["ASSET_MATERIALIZATION", "ASSET_OBSERVATION", "ASSET_FAILED_TO_MATERIALIZE"]
TABLES = ("runs", "run_tags", "event_logs", "asset_keys", "asset_event_tags", "asset_check_executions", "job_ticks")

_PRESENT = b"SELECT bool_and(to_regclass(name) IS NOT NULL) AS present FROM unnest(%(tables)s::text[]) AS name"
_NEWEST_EVENTS = b"""
    SELECT e.id, e.run_id FROM asset_keys k CROSS JOIN unnest(%(shown)s::text[]) AS kind, LATERAL (
        SELECT id, run_id FROM event_logs
        WHERE asset_key = k.asset_key AND dagster_event_type = kind ORDER BY id DESC LIMIT 1) AS e
    UNION
    -- Without its newest, a partition is shown as missing.
    SELECT id, run_id FROM (
        SELECT DISTINCT ON (asset_key, partition) id, run_id FROM event_logs
        WHERE dagster_event_type = 'ASSET_MATERIALIZATION' AND asset_key IS NOT NULL AND partition IS NOT NULL
        ORDER BY asset_key, partition, id DESC) AS p
    UNION
    SELECT NULL, last_run_id FROM asset_keys WHERE last_run_id IS NOT NULL
"""
_CHECKS = b"SELECT DISTINCT asset_key, check_name FROM asset_check_executions"
_NEWEST_CHECKS = b"""
    SELECT c.id, c.run_id, c.evaluation_event_storage_id AS event_id
    FROM unnest(%(assets)s::text[], %(checks)s::text[]) AS known(asset_key, check_name), LATERAL (
        (SELECT id, run_id, evaluation_event_storage_id FROM asset_check_executions x
         WHERE x.asset_key = known.asset_key AND x.check_name = known.check_name ORDER BY id DESC LIMIT 1)
        UNION
        (SELECT id, run_id, evaluation_event_storage_id FROM asset_check_executions x
         WHERE x.asset_key = known.asset_key AND x.check_name = known.check_name
           AND evaluation_event_storage_id IS NOT NULL ORDER BY id DESC LIMIT 1)) AS c
"""
_OLD = b"""status = %(status)s AND update_timestamp < (now() - %(keep)s::interval) AT TIME ZONE 'UTC'
      AND coalesce(end_time, 0) < extract(epoch FROM now() - %(keep)s::interval)"""
_OLD_RUNS = (
    b"SELECT run_id FROM runs WHERE "
    + _OLD
    + b" AND NOT run_id = ANY (%(kept)s::text[]) ORDER BY update_timestamp LIMIT %(batch)s"
)
_DELETE_RUNS = (
    b"""
    WITH gone AS MATERIALIZED (
        SELECT id, run_id FROM runs WHERE run_id = ANY (%(runs)s::text[]) AND """
    + _OLD
    + b""" FOR UPDATE SKIP LOCKED
    ),
    events AS (
        DELETE FROM event_logs e USING gone WHERE e.run_id = gone.run_id RETURNING e.id, e.asset_key
    ),
    labels AS (
        DELETE FROM asset_event_tags t USING events
        WHERE t.event_id = events.id AND events.asset_key IS NOT NULL RETURNING 1
    ),
    checks AS (
        DELETE FROM asset_check_executions c
        USING gone CROSS JOIN unnest(%(assets)s::text[], %(checks)s::text[]) AS known(asset_key, check_name)
        WHERE c.asset_key = known.asset_key AND c.check_name = known.check_name AND c.run_id = gone.run_id RETURNING 1
    ),
    tags AS (
        DELETE FROM run_tags t USING gone WHERE t.run_id = gone.run_id RETURNING 1
    ),
    steps AS (
        DELETE FROM pending_steps s USING gone WHERE s.run_id = gone.run_id RETURNING 1
    ),
    deleted AS (
        DELETE FROM runs r USING gone WHERE r.id = gone.id RETURNING 1
    )
    SELECT (SELECT count(*) FROM deleted) AS runs, (SELECT count(*) FROM events) AS event_logs,
           (SELECT count(*) FROM labels) AS asset_event_tags, (SELECT count(*) FROM checks) AS asset_check_executions,
           (SELECT count(*) FROM tags) AS run_tags, (SELECT count(*) FROM steps) AS pending_steps
"""
)
# Ids ascend with time: the walk ends at the first row that is young enough.
_WALK = b"""
    WITH walked AS MATERIALIZED (
        SELECT id, %(when)s < (now() - %%(keep)s::interval) AT TIME ZONE 'UTC' AS old
        FROM %(table)s t WHERE %(among)s AND id > %%(after)s ORDER BY id LIMIT %%(batch)s
    ),
    reached AS (
        SELECT coalesce(min(id) FILTER (WHERE NOT old) - 1, max(id)) AS last FROM walked
    ),
    gone AS MATERIALIZED (
        SELECT t.id FROM %(table)s t JOIN walked USING (id), reached
        WHERE walked.old AND walked.id <= reached.last AND %(which)s AND NOT t.id = ANY (%%(kept)s::bigint[])
        FOR UPDATE OF t SKIP LOCKED
    ),
    labels AS (
        DELETE FROM asset_event_tags g USING gone WHERE g.event_id = gone.id AND %(labelled)s
    ),
    deleted AS (
        DELETE FROM %(table)s t USING gone WHERE t.id = gone.id RETURNING 1
    )
    SELECT (SELECT count(*) FROM deleted) AS deleted, (SELECT count(*) FROM walked WHERE old) AS old,
           (SELECT count(*) FROM walked) AS walked, (SELECT last FROM reached) AS last
"""
_WALKS = {
    Kind.DAGSTER_CHECKS: {
        b"table": b"asset_check_executions",
        b"when": b"create_timestamp",
        b"among": b"true",
        b"which": b"NOT EXISTS (SELECT FROM runs r WHERE r.run_id = t.run_id)",
        b"labelled": b"false",
    },
    Kind.DAGSTER_EVENTS: {
        b"table": b"event_logs",
        b"when": b"timestamp",
        b"among": b"t.run_id = ''",
        b"which": b"true",
        b"labelled": b"true",
    },
    Kind.DAGSTER_TICKS: {
        b"table": b"job_ticks",
        b"when": b"timestamp",
        b"among": b"true",
        b"which": b"true",
        b"labelled": b"false",
    },
}


@dataclass(frozen=True, slots=True)
class Newest:
    """What the web UI shows of each asset and check, and what there is of checks at all."""

    runs: list[str] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    executions: list[int] = field(default_factory=list)
    checks: list[tuple[str, str]] = field(default_factory=list)

    def kept(self, kind: Kind) -> list[int]:
        """Ids of rows of a kind that stay, however old."""
        return {Kind.DAGSTER_EVENTS: self.events, Kind.DAGSTER_CHECKS: self.executions}.get(kind, [])


@dataclass(frozen=True, slots=True)
class Walk:
    """What one call did about rows in the order of their ids."""

    deleted: int
    more: bool
    last: int


class DagsterTables(OnDatabase):
    """Dagster's storage, as its own role reaches it: a URL whose search path is its schema."""

    async def present(self) -> bool:
        """Whether these are Dagster's tables."""
        row = await self._row(_PRESENT, {"tables": list(TABLES)})
        return bool(row["present"])

    async def newest(self) -> Newest:
        """What must stay, read once a pass: whatever is added meanwhile is younger than any window."""
        events = await self._rows(_NEWEST_EVENTS, {"shown": _SHOWN})
        checks = [(row["asset_key"], row["check_name"]) for row in await self._rows(_CHECKS, {})]
        executions = await self._rows(_NEWEST_CHECKS, _split(checks))
        return Newest(
            sorted({row["run_id"] for row in (*events, *executions) if row["run_id"]}),
            [row["id"] for row in events if row["id"]] + [row["event_id"] for row in executions if row["event_id"]],
            [row["id"] for row in executions],
            checks,
        )

    async def old_runs(self, status: str, keep: timedelta, newest: Newest, batch: int) -> list[str]:
        """Ended runs past the window, oldest first, but those that hold what the web UI shows."""
        bound = {"status": status, "keep": keep, "kept": newest.runs, "batch": batch}
        return [row["run_id"] for row in await self._rows(_OLD_RUNS, bound)]

    async def delete_runs(self, run_ids: Sequence[str], status: str, keep: timedelta, newest: Newest) -> dict[str, int]:
        """Delete those of the runs that nobody works on, with all that is theirs; table -> rows."""
        bound = {"runs": list(run_ids), "status": status, "keep": keep, **_split(newest.checks)}
        return {name: int(count) for name, count in (await self._row(_DELETE_RUNS, bound)).items()}

    async def walk(self, kind: Kind, keep: timedelta, newest: Newest, after: int, batch: int) -> Walk:
        """Delete the next old rows of a kind that belong to no run."""
        row = await self._row(
            _WALK % _WALKS[kind], {"keep": keep, "after": after, "batch": batch, "kept": newest.kept(kind)}
        )
        return Walk(int(row["deleted"]), int(row["old"]) == batch, int(row["last"] or after))

    async def oldest_run(self, keep: timedelta) -> tuple[int, datetime | None]:
        """Ended runs past the window, at most 10,000, and when the oldest ended."""
        row = await self._row(
            b"SELECT count(*) AS count, to_timestamp(min(end_time)) AS oldest FROM (SELECT end_time FROM runs "
            b"WHERE status = ANY (%(ended)s::text[]) AND update_timestamp < (now() - %(keep)s::interval) "
            b"AT TIME ZONE 'UTC' LIMIT 10000) AS old",
            {"ended": list(ENDED), "keep": keep},
        )
        return int(row["count"]), row["oldest"]

    async def _rows(self, statement: bytes, bound: dict[str, Any]) -> list[dict[str, Any]]:
        async with self._database.connection() as connection:
            return await (await connection.execute(statement, bound)).fetchall()

    async def _row(self, statement: bytes, bound: dict[str, Any]) -> dict[str, Any]:
        [row] = await self._rows(statement, bound)
        return row


def _split(checks: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    return {"assets": [asset for asset, _ in checks], "checks": [check for _, check in checks]}
