"""Who is killed while reading a record has written whole stretches or nothing; whoever comes next ends right."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from qtg_dagster.domain.record_days import DAY
from qtg_dagster.faults import FaultPoint as P
from qtg_dagster.host.paths import project_root
from tests.treasury.conftest import FIRST, VENUE, RecordDesk

DAYS = 60
VICTIM = """
import asyncio, sys
from datetime import date, timedelta
from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.inventory import VenueEntry
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.record import VenueRecord
from qtg_dagster.store.database import Database
from qtg_dagster.treasury.record_ingest import Order, RecordKeeper

async def main():
    database, entry, key, first, days = sys.argv[1:]
    account = VenueAccount(key, VenueEntry.model_validate_json(entry))
    keeper = RecordKeeper(Database(database), "sandbox", VenueRecord(account), SystemClock())
    start = date.fromisoformat(first)
    await keeper.ingest(Order([start + timedelta(days=number) for number in range(int(days))], "backfill"))

asyncio.run(main())
"""


async def killed(record: RecordDesk, fault: str) -> None:
    """A process that reads the days and is killed at the point."""
    entry = record.account.entry.model_dump_json()
    arguments = (record.database.url, entry, VENUE, (FIRST - DAY * 30).isoformat(), str(DAYS))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", VICTIM, *arguments),
        env={**os.environ, "QTG_FAULT": fault, "PYTHONPATH": str(project_root())},
    )
    assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("point", "committed"), [(P.RECORD_READ, 30), (P.RECORD_WRITTEN, 30), (P.RECORD_COMMITTED, 60)]
)
async def test_the_second_stretch_is_there_as_a_whole_or_not_at_all(
    record: RecordDesk, point: P, committed: int
) -> None:
    for number in range(0, DAYS, 3):
        await record.add("deposits", FIRST - DAY * 30 + DAY * number, 20)
    await killed(record, f"{point}:kill:2")
    [days] = await record.rows("SELECT count(*) AS n FROM qtg.cex_transfer_days")
    assert days["n"] == committed
    assert len(await record.kept()) == committed / 3 * 20
    done = await record.ingest(*(FIRST - DAY * 30 + DAY * number for number in range(DAYS)))
    assert done.told()["new"] == (DAYS - committed) / 3 * 20
    assert await record.kept() == await record.true()
    events = await record.rows("SELECT transfer_id, count(*) AS n FROM qtg.cex_transfer_events GROUP BY 1")
    assert {event["n"] for event in events} == {1}
