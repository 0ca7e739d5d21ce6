"""Transfers on a venue's record are bound to the one node that made them; others are money that moved without us."""

from __future__ import annotations

from typing import Any

import pytest

from qtg_dagster.domain.record_days import DAY
from qtg_dagster.settings import Settings
from qtg_dagster.upkeep.alerts.looking import Look
from qtg_dagster.upkeep.alerts.sources import venue_records
from tests.store.conftest import Seed
from tests.treasury.conftest import FIRST, VENUE, RecordDesk

W, D = "withdrawals", "deposits"
WITHDRAW, OBSERVE = "exec.cex.withdrawal_action", "exec.cex.deposit_observe"


@pytest.fixture
def seed(record: RecordDesk) -> Seed:
    return Seed(record.database)


async def node(seed: Seed, executor: str, refs: dict[str, Any], venue: str = VENUE, **config: str) -> str:
    """A node of ours at the venue that knows these references."""
    import json

    [found] = await seed.movement(None, executor=executor)
    await seed.sql(
        "UPDATE qtg.movement_plan_nodes p SET config = CAST(:config AS jsonb) "
        "FROM qtg.movement_request_nodes n WHERE n.plan_node_id = p.id AND n.id::text = :id",
        config=json.dumps({"venue": venue, **config}),
        id=found,
    )
    await seed.sql(
        "UPDATE qtg.movement_request_nodes SET provider_refs = CAST(:refs AS jsonb) WHERE id::text = :id",
        refs=json.dumps(refs),
        id=found,
    )
    return found


async def bound(record: RecordDesk) -> dict[str, tuple[str, str]]:
    found = await record.rows(
        "SELECT row_key, matched_node_id::text AS node, matched_by FROM qtg.cex_transfers WHERE matched_by IS NOT NULL"
    )
    return {row["row_key"]: (row["node"], row["matched_by"]) for row in found}


async def conditions(record: RecordDesk) -> list[Any]:
    settings = Settings(database_url=record.database.url)
    return await venue_records.find(Look(record.database, settings, {}))


async def test_a_withdrawal_is_bound_by_its_id_once_and_a_stranger_is_told_of(record: RecordDesk, seed: Seed) -> None:
    ours, theirs = await record.add(W, FIRST, 2, status="completed")
    made = await node(seed, WITHDRAW, {"exchange_withdrawal_id": ours})
    await node(seed, WITHDRAW, {"exchange_withdrawal_id": theirs}, venue="venue_b")
    done = await record.ingest_span(1)
    assert await bound(record) == {ours: (made, "withdrawal_id")}
    assert [day.unmatched for day in done.days] == [1]
    before = await record.written()
    await record.ingest_span(1)
    assert await record.written() == before
    [found] = await conditions(record)
    assert (found.kind, found.severity.value) == ("unmatched_transfers", "critical")
    assert "1 transfer, 1 of them withdrawals" in found.evidence["in all"]


async def test_a_venue_that_is_a_parameter_of_the_movement_counts(record: RecordDesk, seed: Seed) -> None:
    [key] = await record.add(W, FIRST, status="completed")
    made = await node(seed, WITHDRAW, {"exchange_withdrawal_id": key}, venue="$param:from")
    await seed.sql("UPDATE qtg.movement_requests SET input_params = jsonb_build_object('from', 'venue_a')")
    await record.ingest_span(1)
    assert await bound(record) == {key: (made, "withdrawal_id")}


async def test_a_withdrawal_of_which_the_node_knows_no_id_yet_is_bound_by_ours(record: RecordDesk, seed: Seed) -> None:
    [key] = await record.add(W, FIRST, status="completed")
    await record.control.show_instead(VENUE, key, withdrawOrderId="abc123")
    made = await node(seed, WITHDRAW, {"withdrawal_client_id": "abc123"})
    await record.ingest_span(1)
    assert await bound(record) == {key: (made, "client_id")}


async def test_of_two_withdrawals_under_one_id_of_ours_none_is_taken_for_the_one_asked_for(
    record: RecordDesk, seed: Seed
) -> None:
    for key in await record.add(W, FIRST, 2, status="completed"):
        await record.control.show_instead(VENUE, key, withdrawOrderId="abc123")
    await node(seed, WITHDRAW, {"withdrawal_client_id": "abc123"})
    done = await record.ingest_span(1)
    assert await bound(record) == {}
    assert [day.unmatched for day in done.days] == [2]


async def test_a_second_withdrawal_under_a_bound_nodes_id_stays_unmatched(record: RecordDesk, seed: Seed) -> None:
    first, second = await record.add(W, FIRST, 2, status="completed")
    for key in (first, second):
        await record.control.show_instead(VENUE, key, withdrawOrderId="abc123")
    made = await node(seed, WITHDRAW, {"withdrawal_client_id": "abc123", "exchange_withdrawal_id": first})
    done = await record.ingest_span(1)
    assert await bound(record) == {first: (made, "withdrawal_id")}
    assert [day.unmatched for day in done.days] == [1]


async def test_a_deposit_is_bound_by_the_transaction_that_its_movement_sent(record: RecordDesk, seed: Seed) -> None:
    [key] = await record.add(D, FIRST)
    [row] = await record.control.deposits(VENUE)
    made = await node(seed, OBSERVE, {}, address=row["address"].upper().replace("0X", "0x"))
    await seed.sql(
        "UPDATE qtg.movement_request_nodes SET provider_refs = jsonb_build_object('tx_hash', CAST(:tx AS text))",
        tx=row["tx_hash"].upper().replace("0X", ""),
    )
    await record.ingest_span(1)
    assert await bound(record) == {key: (made, "tx_id")}


async def test_a_deposit_to_another_address_is_not_ours_by_its_transaction(record: RecordDesk, seed: Seed) -> None:
    await record.add(D, FIRST)
    [row] = await record.control.deposits(VENUE)
    await node(seed, OBSERVE, {"tx_hash": row["tx_hash"]}, address="0x" + "11" * 20)
    await record.ingest_span(1)
    assert await bound(record) == {}


async def test_a_deposit_that_nobody_watches_for_is_of_the_movement_that_sent_its_transaction(
    record: RecordDesk, seed: Seed
) -> None:
    key, stranger = await record.add(D, FIRST, 2)
    row, _ = sorted(await record.control.deposits(VENUE), key=lambda each: each["id"] != key)
    made = await node(seed, "exec.evm.transfer", {"tx_hash": row["tx_hash"]})
    done = await record.ingest_span(1)
    assert await bound(record) == {key: (made, "tx_id")}
    assert [day.unmatched for day in done.days] == [1], stranger


async def test_a_transaction_that_two_movements_claim_binds_nothing(record: RecordDesk, seed: Seed) -> None:
    await record.add(D, FIRST)
    [row] = await record.control.deposits(VENUE)
    for _ in range(2):
        await node(seed, "exec.evm.transfer", {"tx_hash": row["tx_hash"]})
    await record.ingest_span(1)
    assert await bound(record) == {}


@pytest.mark.parametrize(("more", "ours"), [("0", True), ("0.5", False)])
async def test_a_deposit_paid_by_a_withdrawal_of_ours_is_its_movements_where_the_amount_agrees(
    record: RecordDesk, seed: Seed, more: str, ours: bool
) -> None:
    [key] = await record.add(D, FIRST)
    [out] = await record.add(W, FIRST, status="completed")
    [row] = await record.control.deposits(VENUE)
    made = await node(seed, WITHDRAW, {"exchange_withdrawal_id": out})
    await record.ingest_span(1)
    assert await bound(record) == {out: (made, "withdrawal_id")}
    await seed.sql(
        "UPDATE qtg.cex_transfers w SET tx_id = :tx, amount = d.amount + CAST(:more AS numeric) "
        "FROM qtg.cex_transfers d WHERE d.row_key = :deposit AND w.row_key = :out",
        tx=row["tx_hash"],
        more=more,
        deposit=key,
        out=out,
    )
    await record.ingest_span(1)
    assert (key in await bound(record)) is ours


async def test_a_completed_deposit_node_names_its_rows(record: RecordDesk, seed: Seed) -> None:
    keys = await record.add(D, FIRST, 3)
    made = await node(seed, OBSERVE, {"deposit_id": ",".join(keys[:2])})
    await record.ingest_span(1)
    assert await bound(record) == dict.fromkeys(keys[:2], (made, "deposit_id"))


async def test_what_was_called_off_and_what_came_up_a_moment_ago_is_no_alarm(record: RecordDesk) -> None:
    from datetime import UTC, datetime

    await record.add(W, FIRST, 2)
    await record.control.add_rows(VENUE, D, 1)
    today = datetime.now(UTC).date()
    await record.ingest(FIRST, today - DAY, today)
    assert len(await record.kept()) == 3
    assert await conditions(record) == []


async def test_an_end_that_changed_is_told_of_with_both(record: RecordDesk) -> None:
    [key] = await record.add(W, FIRST)  # called off: nothing moved
    await record.ingest_span(1)
    await record.control.show_status(VENUE, W, key, "completed")
    await record.ingest_span(1)
    [found] = await conditions(record)
    assert (found.kind, found.severity.value) == ("disputed_transfer", "critical")
    assert (found.evidence["first"], found.evidence["now"]) == ("CANCELLED (1)", "DONE (6)")
