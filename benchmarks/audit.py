"""The audit trail: entries promoted and verified a second: `python -m benchmarks.audit [--events N] [--url URL]`.

Promotes with the rights of `qtg_sender`, in batches as the drain does, beside deeds of the same process; with `--held`,
somebody's old snapshot stays open meanwhile. Then verifies the whole chain beside its outbox, changes one row behind
everybody's back, and has the verification name it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time

import psycopg
from sqlalchemy.engine import make_url

from benchmarks.server import fresh_database, server
from qtg_dagster.store.audit import audit
from qtg_dagster.store.audit_chain import promote_entries
from qtg_dagster.store.database import Database
from qtg_dagster.store.roles import APP, SENDER
from qtg_dagster.upkeep.audit_promoter import BATCH
from qtg_dagster.upkeep.audit_trail import verify_trail

_NETWORK_CLASS = "sandbox"
_ALONE_SECONDS = 3.0
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
        app = Database(_as(url, APP), pool_size=2)
        alone = await _deeds(app, until=asyncio.create_task(asyncio.sleep(_ALONE_SECONDS)))
        longest, begun = 0.0, time.perf_counter()

        async def promote() -> None:
            nonlocal longest
            while True:
                at = time.perf_counter()
                if not await promote_entries(sender, _NETWORK_CLASS, batch):
                    return
                longest = max(longest, time.perf_counter() - at)

        promoting_now = asyncio.create_task(promote())
        beside = await _deeds(app, until=promoting_now)
        await promoting_now
        promoting = time.perf_counter() - begun
        while await promote_entries(sender, _NETWORK_CLASS, batch):
            pass
        await sender.close()
        begun = time.perf_counter()
        report = await verify_trail(app, _NETWORK_CLASS)
        verifying = time.perf_counter() - begun
        if not report.right or report.rows < events:
            raise RuntimeError(f"{report.rows} rows read: {report.problem}")
        owner.execute("ALTER TABLE qtg.audit_events DISABLE TRIGGER append_only_audit_events")
        owner.execute("UPDATE qtg.audit_events SET actor = 'mallory' WHERE sequence = %s", (events // 2,))
        tampered = await verify_trail(app, _NETWORK_CLASS)
        await app.close()
    return {
        "events": events,
        "promoted_per_second": events / promoting,
        "longest_batch_ms": longest * 1000,
        "deed_p50_ms": statistics.median(alone) * 1000,
        "deed_p50_ms_beside_promotion": statistics.median(beside) * 1000,
        "verified_per_second": report.rows / verifying,
        "tampered": tampered.problem or "NOT FOUND",
    }


async def _deeds(app: Database, *, until: asyncio.Task[None]) -> list[float]:
    """Seconds that a deed's transaction takes, 50 of them a second: what promotion costs the money path."""
    took: list[float] = []
    while not until.done():
        begun = time.perf_counter()
        async with app.transaction() as transaction:
            await audit(
                transaction, network_class=_NETWORK_CLASS, actor="ada", action="move", subject_id="x", details={}
            )
        took.append(time.perf_counter() - begun)
        await asyncio.sleep(0.02)
    return took


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
