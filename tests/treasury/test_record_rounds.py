"""What of a venue's record is read again when: decided from what was read, so that nothing needs making up for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.record_days import FOLLOW_UP, RESCANS, trailing
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.settings import Settings
from qtg_dagster.treasury.record_ingest import Order
from qtg_dagster.treasury.record_rounds import due_readings, read_round
from tests.treasury.conftest import FIRST, VENUE, RecordDesk

THREE, THIRTY, NINETY = RESCANS


def settings_of(record: RecordDesk, venues: str = VENUE) -> Settings:
    return Settings(database_url=record.database.url, cex_transfer_ingest_venues_csv=venues)


async def due(record: RecordDesk, ahead: timedelta = timedelta()) -> dict[str, int]:
    """Purpose -> how many days are due then."""
    found = await due_readings(record.database, settings_of(record), datetime.now(UTC) + ahead)
    return {each.order.purpose: len(each.order.days) for each in found}


async def rescan(record: RecordDesk, days: int, purpose: str) -> None:
    await record.keeper.ingest(Order(trailing(datetime.now(UTC), days).days, purpose))


async def test_a_rescan_is_due_until_it_was_read_to_its_end(record: RecordDesk) -> None:
    assert await due(record) == {NINETY.purpose: 90}
    whole = trailing(datetime.now(UTC), 90).days
    await record.keeper.ingest(Order(whole[:60], NINETY.purpose))  # cut off after two stretches
    assert await due(record) == {NINETY.purpose: 90}
    await rescan(record, 90, NINETY.purpose)
    assert await due(record) == {}
    assert await due(record, timedelta(minutes=61)) == {THREE.purpose: 3}
    assert await due(record, timedelta(hours=25)) == {THIRTY.purpose: 30}


async def test_days_with_open_transfers_are_followed_until_they_have_ended(record: RecordDesk) -> None:
    await rescan(record, 90, NINETY.purpose)
    [key] = await record.add("withdrawals", FIRST, status="processing")
    await record.ingest(FIRST)
    assert await due(record) == {}
    assert (await due(record, timedelta(hours=7))).get(FOLLOW_UP) == 1
    await record.control.go_on(VENUE, "withdrawals", key, "completed")
    await record.ingest(FIRST)
    assert FOLLOW_UP not in await due(record, timedelta(hours=7))


async def test_a_day_that_could_not_be_read_is_tried_again_but_not_at_once(record: RecordDesk) -> None:
    await rescan(record, 90, NINETY.purpose)
    [key] = await record.add("deposits", FIRST)
    await record.control.show_instead(VENUE, key, amount="much")
    await record.ingest(FIRST)
    assert await due(record, timedelta(minutes=9)) == {}
    assert await due(record, timedelta(minutes=11)) == {FOLLOW_UP: 1}


async def test_one_venue_that_fails_is_told_and_one_that_is_unknown_refused(record: RecordDesk) -> None:
    await record.control.order(FaultKind.EXECUTE_THEN_500, endpoint="deposits", times=1000)
    readers = {VENUE: record.keeper.reader}
    done = await read_round(record.database, settings_of(record), readers, SystemClock(), None)
    assert "90 days incomplete: HTTP_500" in done.problems[VENUE]
    with pytest.raises(ConfigurationError, match="no venue 'venue_x' in the inventory"):
        await read_round(record.database, settings_of(record, "venue_x"), readers, SystemClock(), None)
