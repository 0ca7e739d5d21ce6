"""People answer for what no movement made, and say which of two ends stands: audited, once, and for good reason."""

from __future__ import annotations

from typing import Any

import pytest

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.record_days import DAY, start_of
from qtg_dagster.treasury.record_decisions import Answered, acknowledge_transfers, settle_transfer
from tests.treasury.conftest import FIRST, VENUE, RecordDesk

WHO = {"actor": "grace", "reason": "this was ours by hand: payroll"}


async def numbers(record: RecordDesk) -> list[int]:
    return [row["id"] for row in await record.rows("SELECT id FROM qtg.cex_transfers ORDER BY id")]


async def audited(record: RecordDesk) -> list[dict[str, Any]]:
    return await record.rows("SELECT actor, action, subject_type, details FROM qtg.audit_outbox ORDER BY id")


async def test_transfers_are_acknowledged_by_number_with_one_entry(record: RecordDesk) -> None:
    await record.add("deposits", FIRST, 3)
    await record.ingest_span(1)
    first, second, third = await numbers(record)
    assert await acknowledge_transfers(record.database, "sandbox", Answered((first, second)), **WHO) == 2
    [entry] = await audited(record)
    assert (entry["actor"], entry["action"], entry["subject_type"]) == (
        "grace",
        "acknowledge_cex_transfers",
        "cex_transfer",
    )
    assert entry["details"]["transfers"] == [first, second]
    with pytest.raises(InvalidInput, match=f"not unmatched on our record: {second}"):
        await acknowledge_transfers(record.database, "sandbox", Answered((second, third)), **WHO)
    assert [
        row["n"]
        for row in await record.rows("SELECT count(*) AS n FROM qtg.cex_transfers WHERE acknowledged_by IS NOT NULL")
    ] == [2]
    assert len(await audited(record)) == 1
    again = await record.ingest_span(1)
    assert [day.unmatched for day in again.days] == [1]


async def test_all_of_a_venue_before_a_time_are_acknowledged_at_once(record: RecordDesk) -> None:
    await record.add("deposits", FIRST, 120)
    await record.add("deposits", FIRST + DAY, 1)
    await record.ingest_span(2)
    answered = Answered.read([], VENUE, (FIRST + DAY).isoformat())
    assert answered.before == start_of(FIRST + DAY)
    assert await acknowledge_transfers(record.database, "sandbox", answered, **WHO) == 120
    [entry] = await audited(record)
    assert (entry["details"]["count"], len(entry["details"]["transfers"])) == (120, 100)
    with pytest.raises(InvalidInput, match="anything at venue_a before then"):
        await acknowledge_transfers(record.database, "sandbox", answered, **WHO)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (([], None, None), "transfers"),
        (([1], VENUE, "2026-03-01"), "transfers"),
        (([], VENUE, None), "transfers"),
        (([], None, "2026-03-01"), "transfers"),
        (([], VENUE, "yesterday"), "before"),
    ],
)
def test_what_is_meant_must_be_clear(given: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Answered.read(*given)
    assert refused.value.field == field


async def test_nobody_answers_without_a_name_and_a_reason(record: RecordDesk) -> None:
    for wrong in ({"actor": " "}, {"reason": ""}):
        with pytest.raises(InvalidInput, match="is empty"):
            await acknowledge_transfers(record.database, "sandbox", Answered((1,)), **{**WHO, **wrong})


async def disputed(record: RecordDesk, status: str = "failure") -> int:
    [key] = await record.add("withdrawals", FIRST, status="completed")
    await record.ingest_span(1)
    await record.control.show_status(VENUE, "withdrawals", key, status)
    await record.ingest_span(1)
    [number] = await numbers(record)
    return number


@pytest.mark.parametrize(("stands", "status", "raw"), [("ours", "DONE", "6"), ("venues", "FAILED", "5")])
async def test_the_end_that_stands_is_written_once_and_the_venues_row_disputes_it_no_more(
    record: RecordDesk, stands: str, status: str, raw: str
) -> None:
    number = await disputed(record)
    await settle_transfer(record.database, "sandbox", number, stands=stands, **WHO)
    await record.ingest_span(1)
    [row] = await record.rows("SELECT status, raw_status, disputed_status, settled_by FROM qtg.cex_transfers")
    assert tuple(row.values()) == (status, raw, None, "grace")
    [entry] = await audited(record)
    assert (entry["action"], entry["details"]["ours"], entry["details"]["venues"]) == (
        "settle_cex_transfer",
        "DONE",
        "FAILED",
    )
    [event] = await record.rows("SELECT actor, after FROM qtg.cex_transfer_events WHERE changes = '{settled}'")
    assert (event["actor"], event["after"]["status"]) == ("grace", status)
    with pytest.raises(InvalidInput, match="is not disputed"):
        await settle_transfer(record.database, "sandbox", number, stands=stands, **WHO)
    before = await record.written()
    await record.ingest_span(1)
    assert await record.written() == before


async def test_a_step_back_is_no_end_that_could_stand(record: RecordDesk) -> None:
    number = await disputed(record, "processing")
    with pytest.raises(InvalidInput, match="which is no end"):
        await settle_transfer(record.database, "sandbox", number, stands="venues", **WHO)
    assert await audited(record) == []


async def test_the_database_refuses_to_write_over_an_end_and_to_forget(record: RecordDesk) -> None:
    from sqlalchemy.exc import DBAPIError

    number = await disputed(record)
    for statement in (
        "UPDATE qtg.cex_transfers SET status = 'FAILED'",
        "UPDATE qtg.cex_transfers SET row_key = 'x'",
        "DELETE FROM qtg.cex_transfers",
        "DELETE FROM qtg.cex_transfer_events",
        "UPDATE qtg.cex_transfer_readings SET problem = NULL",
    ):
        with pytest.raises(DBAPIError, match="cex_transfer"):
            await record.rows(statement)
    assert await numbers(record) == [number]
