"""A venue's record is kept row for row: every coin, once, with all its changes, and days are incomplete, not wrong."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.record_days import DAY, DayState
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.store.cex_transfers import reading_alone
from qtg_dagster.treasury.record_ingest import Order
from tests.treasury.conftest import FIRST, VENUE, RecordDesk

W, D = "withdrawals", "deposits"


async def test_all_rows_of_all_coins_are_kept_once_and_a_second_pass_writes_nothing(record: RecordDesk) -> None:
    for number, coin in enumerate(("ETH", "USDC")):
        await record.add(W, FIRST + DAY * number, 3, coin=coin, status="completed")
        await record.add(D, FIRST + DAY * number, 2, coin=coin)
    done = await record.ingest_span(3)
    assert [(day.state, day.transfers, day.new) for day in done.days] == [
        (DayState.CLOSED, 5, 5),
        (DayState.CLOSED, 5, 5),
        (DayState.CLOSED, 0, 0),
    ]
    assert await record.kept() == await record.true()
    before = await record.written()
    again = await record.ingest_span(3)
    assert (again.told()["new"], again.told()["changed"]) == (0, 0)
    assert await record.written() == before
    readings = await record.rows("SELECT transfers, new_transfers, problem FROM qtg.cex_transfer_readings ORDER BY id")
    assert [tuple(row.values()) for row in readings] == [(10, 10, None), (10, 0, None)]


async def test_a_change_is_told_once_with_what_was_before_and_closes_the_day(record: RecordDesk) -> None:
    [paid] = await record.add(W, FIRST, status="processing")
    [credited] = await record.add(D, FIRST, status="pending")
    first = await record.ingest_span(1)
    assert [(day.state, day.open_transfers) for day in first.days] == [(DayState.OPEN, 2)]
    await record.control.go_on(VENUE, W, paid, "completed")
    await record.control.go_on(VENUE, D, credited, "success")
    second = await record.ingest_span(1)
    assert [(day.state, day.changed) for day in second.days] == [(DayState.CLOSED, 2)]
    assert await record.kept() == await record.true()
    [event] = await record.rows(
        "SELECT changes, before, after FROM qtg.cex_transfer_events e JOIN qtg.cex_transfers t ON t.id = e.transfer_id "
        "WHERE row_key = :key AND 'first_seen' <> ALL (changes)",
        key=paid,
    )
    assert event["changes"] == ["status", "tx_id", "confirmations"]
    assert (event["before"]["raw_status"], event["after"]["raw_status"]) == ("4", "6")
    assert event["before"]["tx_id"] is None


async def test_another_end_is_never_written_over_the_first(record: RecordDesk) -> None:
    [key] = await record.add(W, FIRST, status="completed")
    await record.ingest_span(1)
    await record.control.show_status(VENUE, W, key, "failure")
    await record.ingest_span(1)
    before = await record.written()
    await record.ingest_span(1)
    assert await record.written() == before
    [row] = await record.rows("SELECT status, raw_status, disputed_status, disputed_raw_status FROM qtg.cex_transfers")
    assert tuple(row.values()) == ("DONE", "6", "FAILED", "5")


async def test_a_replaced_transaction_keeps_the_one_before(record: RecordDesk) -> None:
    [key] = await record.add(W, FIRST, status="completed")
    await record.ingest_span(1)
    await record.control.show_instead(VENUE, key, txId="0x" + "77" * 32)
    await record.ingest_span(1)
    [row] = await record.rows(
        "SELECT t.tx_id, e.before FROM qtg.cex_transfers t "
        "JOIN qtg.cex_transfer_events e ON e.transfer_id = t.id AND e.changes = '{tx_id}'"
    )
    assert row["tx_id"] == "0x" + "77" * 32
    assert row["before"]["tx_id"] == (await record.true())["withdrawal", key][2]


async def test_rows_that_come_in_while_pages_are_read_are_not_lost(record: RecordDesk) -> None:
    now = datetime.now(UTC)
    await record.control.add_rows(VENUE, D, 2300, newest_ms=int(now.timestamp() * 1000), spacing_ms=1)
    await record.control.order(FaultKind.PAGING_SHIFT, endpoint=D, rows=40, skip=1)
    await record.ingest(now.date() - DAY, now.date())
    assert len(await record.kept()) == 2340
    assert await record.kept() == await record.true()


async def test_a_venue_that_does_not_answer_leaves_the_day_incomplete_and_closed_days_closed(
    record: RecordDesk,
) -> None:
    await record.add(D, FIRST, 2)
    await record.ingest_span(1)
    await record.control.order(FaultKind.EXECUTE_THEN_500, endpoint=W, times=20)
    down = await record.ingest_span(2)
    assert [day.state for day in down.days] == [DayState.INCOMPLETE, DayState.INCOMPLETE]
    assert all("HTTP_500" in (day.problem or "") for day in down.days)
    assert record.pauses == [1.0, 3.0, 10.0, 30.0]
    days = await record.rows("SELECT day_state FROM qtg.cex_transfer_days ORDER BY day")
    assert [day["day_state"] for day in days] == ["CLOSED", "INCOMPLETE"]
    await record.control.clear_faults()
    up = await record.ingest_span(2)
    assert [day.state for day in up.days] == [DayState.CLOSED, DayState.CLOSED]


async def test_one_row_that_cannot_be_read_spoils_its_own_day_alone(record: RecordDesk) -> None:
    keys = [(await record.add(W, FIRST + DAY * number))[0] for number in range(5)]
    await record.control.show_instead(VENUE, keys[3], amount="much")
    done = await record.ingest_span(5)
    assert [day.state for day in done.days] == [
        *[DayState.CLOSED] * 3,
        DayState.INCOMPLETE,
        DayState.CLOSED,
    ]
    assert "MALFORMED" in (done.days[3].problem or "")


async def test_a_transfer_that_the_venue_shows_no_more_makes_its_day_incomplete(record: RecordDesk) -> None:
    await record.add(D, FIRST, 2)
    await record.ingest_span(1)
    await record.control.set_conditions(VENUE, empty_history_times=2)
    gone = await record.ingest_span(1)
    assert [(day.state, day.problem) for day in gone.days] == [
        (DayState.INCOMPLETE, "NOT_SHOWN: 2 transfers on our record, and not on the venue's any more")
    ]
    assert len(await record.kept()) == 2


async def test_rows_about_midnight_belong_to_the_day_of_their_time(record: RecordDesk) -> None:
    await record.add(D, FIRST, hours=0)
    await record.add(D, FIRST, hours=24 - 1 / 3600)
    await record.add(D, FIRST + DAY, hours=0.1)
    done = await record.ingest(FIRST)
    assert [day.transfers for day in done.days] == [2]
    next_day = await record.ingest(FIRST + DAY)
    assert [(day.transfers, day.new) for day in next_day.days] == [(1, 0)]


async def test_two_at_once_read_one_after_the_other(record: RecordDesk) -> None:
    await record.add(D, FIRST, 50)
    both = await asyncio.gather(record.ingest_span(2), record.ingest_span(2))
    assert sorted(done.told()["new"] for done in both) == [0, 50]
    async with reading_alone(record.database, record.keeper.place, wait_seconds=1):
        with pytest.raises(Conflict, match="somebody else"):
            await record.keeper_of(busy_seconds=0.05).ingest(Order([FIRST], "backfill"))


async def test_a_year_is_read_in_few_stretches(record: RecordDesk) -> None:
    await record.add(D, FIRST - DAY * 200, 3)
    order = Order([FIRST - DAY * number for number in range(365)], "backfill")
    heard = [days async for days in record.keeper.stretches(order)]
    assert max(len(days) for days in heard) == record.keeper_of().reader.days_at_once == 30
    assert [day.day for days in heard for day in days] == sorted(order.days)
    assert sum(day.transfers for days in heard for day in days) == 3
