"""Who is alive, as PostgreSQL sees it: the runners whose session lock is held at this moment."""

from __future__ import annotations

from sqlalchemy import DDL, event

from qtg_dagster.store.runners import RUNNER_LOCK_CLASS
from qtg_dagster.store.schema.base import metadata

LIVE_RUNNERS = f"""CREATE VIEW qtg.live_runners AS
SELECT objid::bigint AS runner_id
FROM pg_locks
WHERE locktype = 'advisory' AND classid = {RUNNER_LOCK_CLASS} AND objsubid = 2 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""  # noqa: S608 - our own constant

_ddl: DDL = DDL(LIVE_RUNNERS)  # type: ignore[no-untyped-call]
event.listen(metadata, "after_create", _ddl)
