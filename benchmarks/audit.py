"""The audit trail: entries promoted and verified a second: `python -m benchmarks.audit [--events N] [--url URL]`.

Promotes with the rights of `qtg_sender`, in batches as the drain does, while an old snapshot of somebody else is held
open if `--held` asks for it; then verifies the whole chain beside its outbox; then changes one row behind everybody's
back and has the verification name it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

import psycopg
from sqlalchemy.engine import make_url

from benchmarks.server import fresh_database, server
from qtg_dagster.store.audit_chain import promote_entries
from qtg_dagster.store.database import Database
from qtg_dagster.store.roles import APP, SENDER
from qtg_dagster.upkeep.audit_promoter import BATCH
from qtg_dagster.upkeep.audit_trail import verify_trail

_NETWORK_CLASS = "sandbox"
_ENTRIES = """
    INSERT INTO qtg.audit_outbox (network_class, actor, action, subject_type, subject_id, details)
    SELECT %s, 'grace', 'approve', 'movement_request', gen_random_uuid()::text, jsonb_build_object(
        'approval_digest', encode(sha256(n::text::bytea), 'hex'),
        'compiled_plan_hash', encode(sha256((n || 'p')::bytea), 'hex'), 'approvals', '1 of 1')
    FROM generate_series(1, %s) AS n
"""


async def run(url: str, events: int, batch: int, *, held: bool) -> dict[str, float | str]:
    """Figures of one run on an empty database."""
    with psycopg.connect(url, autocommit=True) as owner, psycopg.connect(url) as somebody:
        owner.execute(_ENTRIES, (_NETWORK_CLASS, events))
        owner.execute("VACUUM ANALYZE qtg.audit_outbox")
        if held:
            somebody.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            somebody.execute("CREATE TEMPORARY TABLE writes_too (id int)")
        sender = Database(_as(url, SENDER), pool_size=2)
        longest, begun = 0.0, time.perf_counter()
        while True:
            at = time.perf_counter()
            if not await promote_entries(sender, _NETWORK_CLASS, batch):
                break
            longest = max(longest, time.perf_counter() - at)
        promoting = time.perf_counter() - begun
        await sender.close()
        app = Database(_as(url, APP), pool_size=2)
        begun = time.perf_counter()
        report = await verify_trail(app, _NETWORK_CLASS)
        verifying = time.perf_counter() - begun
        if not report.right or report.rows != events:
            raise RuntimeError(f"{report.rows} rows read: {report.problem}")
        owner.execute("ALTER TABLE qtg.audit_events DISABLE TRIGGER append_only_audit_events")
        owner.execute("UPDATE qtg.audit_events SET actor = 'mallory' WHERE sequence = %s", (events // 2,))
        tampered = await verify_trail(app, _NETWORK_CLASS)
        await app.close()
    return {
        "events": events,
        "promoted_per_second": events / promoting,
        "longest_batch_ms": longest * 1000,
        "verified_per_second": events / verifying,
        "tampered": tampered.problem or "NOT FOUND",
    }


def _as(url: str, role: str) -> str:
    return make_url(url).set(username=role).render_as_string(hide_password=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--held", action="store_true", help="somebody's transaction stays open meanwhile")
    parser.add_argument("--url", default="", help="PostgreSQL to use, as superuser; default: an embedded one, durable")
    given = parser.parse_args()
    with server(given.url) as url, fresh_database(url, "bench_audit") as own:
        print(json.dumps(asyncio.run(run(own, given.events, given.batch, held=given.held))))


if __name__ == "__main__":
    main()
