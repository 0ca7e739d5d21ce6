"""Movements that are over go whole or not at all, only when all of them has settled, and their keys stay taken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text

from qtg_dagster.domain.errors import Conflict, NotFound
from qtg_dagster.domain.retention import Kind, Standing
from qtg_dagster.engine.requests import cancel_movement, create_movement
from qtg_dagster.store.ledger import read_lines, verify_ledger
from qtg_dagster.store.nonces import NonceLedger
from qtg_dagster.store.retention import BEGINNING, held_movements, read_tombstone
from tests.engine.plans import order_of
from tests.engine.retained import TREE, WINDOW, Keeper, paid

SENDER = "0x" + "ab" * 20
KEYED = {"idempotency_key": "payroll 7", "reason": "may"}


async def test_a_movement_goes_with_all_that_is_its_and_nothing_else(keeper: Keeper) -> None:
    request_id, other = await keeper.finished(), await keeper.finished(days=29)
    nodes, others = await keeper.nodes(request_id), await keeper.nodes(other)
    before, standing = await keeper.tree(request_id, nodes), await keeper.tree(other, others)
    assert {table for table, count in before.items() if not count} == {"evm_nonce_reservation", "ccip_send_intent"}
    batch = await keeper.batch()
    assert (batch.examined, batch.deleted, batch.held, batch.locked, batch.failed) == (1, 1, 0, 0, 0)
    assert batch.counts == before
    assert await keeper.tree(request_id, nodes) == dict.fromkeys(TREE, 0)
    assert await keeper.tree(other, others) == standing


async def test_what_stays_says_who_asked_for_what_and_how_it_ended(keeper: Keeper) -> None:
    request_id = await keeper.finished(**KEYED)
    [before] = await keeper.desk.rows("SELECT * FROM qtg.movement_requests")
    nodes = await keeper.nodes(request_id)
    assert await keeper.deletes(request_id)
    async with keeper.desk.owner.transaction() as transaction:
        stone = await read_tombstone(transaction, "sandbox", request_id)
        for unknown in (nodes[0], "no id"):
            with pytest.raises(NotFound):
                await read_tombstone(transaction, "sandbox", unknown)
    for name in (
        *("network_class", "idempotency_key", "body_hash", "compiled_plan_hash", "approval_digest", "request_state"),
        *("requested_by", "created_at", "approved_at", "finished_at", "expires_at"),
    ):
        assert getattr(stone, name) == before[name], name
    assert (stone.template_key, stone.template_version, stone.approved_by) == ("paid", 1, ("grace",))
    assert set(stone.nodes) == set(nodes)
    assert {node["key"]: node["state"] for node in stone.nodes.values()} == dict.fromkeys(
        ("first", "watch", "last"), "COMPLETED"
    )


async def test_the_key_of_a_deleted_movement_gives_the_same_receipt_and_takes_no_other_order(keeper: Keeper) -> None:
    request_id = await keeper.finished(**KEYED)
    order = order_of(paid(), callback_url="https://example.com/told", **KEYED)
    standing = await create_movement(keeper.desk.engine, order)
    assert await keeper.deletes(request_id)
    assert await create_movement(keeper.desk.engine, order) == standing
    assert standing.request_id == request_id
    other = order.model_copy(update={"reason": "june"})
    with pytest.raises(Conflict, match=f"belongs to movement {request_id} with another content"):
        await create_movement(keeper.desk.engine, other)
    assert await keeper.desk.rows("SELECT 1 FROM qtg.movement_requests") == []


async def test_plain_sql_cannot_take_the_key_of_a_deleted_movement_either(keeper: Keeper) -> None:
    request_id = await keeper.finished(**KEYED)
    columns = "network_class, plan_version_id, body_hash, compiled_plan_hash, approval_digest, requested_by, reason"
    [row] = await keeper.desk.rows(f"SELECT {columns} FROM qtg.movement_requests")  # noqa: S608 - our own constant
    assert await keeper.deletes(request_id)
    insert = (
        f"INSERT INTO qtg.movement_requests ({columns}, request_state, idempotency_key) "  # noqa: S608 - the same
        f"VALUES ({', '.join(':' + name for name in row)}, 'PENDING_APPROVAL', :key)"
    )
    with pytest.raises(Exception, match="belongs to a movement whose rows were deleted"):
        await keeper.desk.sql(insert, **row, key="payroll 7")
    await keeper.desk.sql(insert, **row, key="payroll 8")


async def test_the_books_add_up_and_can_be_read_after_the_movements_are_gone(keeper: Keeper) -> None:
    request_id = await keeper.finished()
    await keeper.finished(days=1)
    async with keeper.desk.owner.transaction() as transaction:
        before = await verify_ledger(transaction, "sandbox")
        lines = await read_lines(transaction, "sandbox", request_id)
    assert before.right
    assert len(before.totals) == 2
    assert len(lines) == 4
    assert await keeper.deletes(request_id)
    async with keeper.desk.owner.transaction() as transaction:
        assert await verify_ledger(transaction, "sandbox") == before
        assert await read_lines(transaction, "sandbox", request_id) == lines


async def test_lines_of_a_movement_that_nobody_knows_are_wrong(keeper: Keeper) -> None:
    request_id = await keeper.finished()
    assert await keeper.deletes(request_id)
    await unguarded(keeper, "DELETE FROM qtg.movement_tombstones", "movement_tombstones")
    async with keeper.desk.owner.transaction() as transaction:
        report = await verify_ledger(transaction, "sandbox")
    assert not report.right
    assert [(one.request_id, one.check, one.wrong) for one in report.findings] == [(request_id, "of no movement", True)]


@pytest.mark.parametrize(("days", "gone"), [(29.99, False), (30.01, True)])
async def test_the_window_counts_from_the_end(keeper: Keeper, days: float, *, gone: bool) -> None:
    assert await keeper.deletes(await keeper.finished(days=days)) is gone


@dataclass(frozen=True)
class Hold:
    """What keeps a movement, how it comes about, and how it passes; of a table whose guards stand aside meanwhile."""

    comes: str
    passes: str
    guarded: str = ""


_AWAY = "WITH gone AS (DELETE FROM qtg.ledger_lines{} RETURNING *) INSERT INTO public.kept SELECT * FROM gone"
_BACK = "INSERT INTO qtg.ledger_lines OVERRIDING SYSTEM VALUE SELECT * FROM public.kept"
_NODE, _REQUEST = "movement_request_nodes", "movement_requests"
_LINES = "ledger_lines"
_RESERVED = """
    INSERT INTO qtg.evm_nonce_reservation (chain, sender, nonce, request_node_id, attempt_no, reservation_state)
    SELECT 'eip155:1', '0xab', 7, id, 1, 'RESERVED' FROM qtg.movement_request_nodes WHERE node_key = 'first'"""
_TRANSFER = """
    DO $$ BEGIN
        INSERT INTO qtg.capital_transfer_requests (network_class, transfer_state, source, destination, asset, decimals,
            base_units, reason, requested_by, body_hash)
        VALUES ('sandbox', 'REQUESTED', 'a', 'b', 'USDC', 6, 1, '', 'ada', 'h');
        INSERT INTO qtg.capital_transfer_attempts (transfer_id, attempt_no, movement_request_id, route, template_key)
        SELECT c.id, 1, r.id, 'way', 'sample' FROM qtg.capital_transfer_requests c, qtg.movement_requests r;
    END $$"""
_SEND = """
    INSERT INTO qtg.ccip_send_intent (network_class, request_node_id, attempt_no, send_state, source_chain,
        destination_selector, router, sender)
    SELECT 'sandbox', id, 1, 'INTENT', 'eip155:1', 1, '0xr', '0xs'
    FROM qtg.movement_request_nodes WHERE node_key = 'first'"""
HOLDS = {
    "a callback is not delivered": Hold(
        "UPDATE qtg.movement_callback_outbox SET status = 'dlq' WHERE event_type = 'frontier_advanced'",
        "UPDATE qtg.movement_callback_outbox SET status = 'delivered'",
    ),
    "an audit entry is not promoted": Hold(
        "UPDATE qtg.audit_outbox SET promoted_at = NULL WHERE action = 'approve'",
        "UPDATE qtg.audit_outbox SET promoted_at = now()",
        "audit_outbox",
    ),
    "a node is not settled": Hold(
        "UPDATE qtg.movement_request_nodes SET node_state = 'UNKNOWN' WHERE node_key = 'last'",
        "UPDATE qtg.movement_request_nodes SET node_state = 'COMPLETED'",
        _NODE,
    ),
    "not in a final state": Hold(
        "UPDATE qtg.movement_requests SET request_state = 'FAILED'",
        "UPDATE qtg.movement_requests SET request_state = 'COMPLETED'",
        _REQUEST,
    ),
    "an alert about it is open": Hold(
        "INSERT INTO qtg.alerts (network_class, kind, dedupe_key, severity, title) "
        "SELECT 'sandbox', 'manual_intervention', id::text, 'critical', 't' FROM qtg.movement_requests",
        "UPDATE qtg.alerts SET resolved_at = now()",
    ),
    "money of it is in transit": Hold(_AWAY.format(" WHERE entry_kind = 'arrival'"), _BACK, _LINES),
    "a departure of it is missing": Hold(_AWAY.format(""), _BACK, _LINES),
    "a nonce of it may still be used": Hold(
        _RESERVED, "UPDATE qtg.evm_nonce_reservation SET reservation_state = 'RELEASED'"
    ),
    "a capital transfer of it is open": Hold(
        _TRANSFER, "UPDATE qtg.capital_transfer_requests SET transfer_state = 'CANCELLED', finished_at = now()"
    ),
    "a CCIP send of it has no known end": Hold(
        _SEND,
        "UPDATE qtg.ccip_send_intent SET send_state = 'RESOLVED', resolution = 'took_effect', evidence_step_id = "
        "(SELECT min(id) FROM qtg.movement_node_steps)",
    ),
}


async def unguarded(keeper: Keeper, statement: str, table: str) -> None:
    """Change what triggers guard: in one transaction, so that they stand again whatever happens."""
    async with keeper.desk.owner.transaction() as transaction:
        if table:
            await transaction.execute(text(f"ALTER TABLE qtg.{table} DISABLE TRIGGER USER"))
        await transaction.execute(text(statement))
        if table:
            await transaction.execute(text(f"ALTER TABLE qtg.{table} ENABLE TRIGGER USER"))


@pytest.mark.parametrize("why", HOLDS)
async def test_it_stays_whole_while_anything_of_it_is_not_settled(keeper: Keeper, why: str) -> None:
    request_id = await keeper.finished()
    nodes = await keeper.nodes(request_id)
    hold = HOLDS[why]
    await keeper.desk.sql("DROP TABLE IF EXISTS public.kept")
    await keeper.desk.sql("CREATE TABLE public.kept (LIKE qtg.ledger_lines)")
    await unguarded(keeper, hold.comes, hold.guarded)
    before = await keeper.tree(request_id, nodes)
    batch = await keeper.batch()
    assert (batch.examined, batch.deleted, batch.held) == (1, 0, 1)
    assert await keeper.tree(request_id, nodes) == before
    async with keeper.desk.owner.transaction() as transaction:
        found = await held_movements(transaction, WINDOW, 10)
    assert found.reasons == {why: (1, request_id)}
    await unguarded(keeper, hold.passes, hold.guarded)
    assert await keeper.deletes(request_id)


async def test_one_that_was_called_off_before_it_began_goes_too(keeper: Keeper) -> None:
    request_id = await keeper.desk.create(paid())
    await cancel_movement(keeper.desk.engine, request_id, actor="heidi", reason="no")
    await keeper.settle()
    await keeper.age(request_id, 31)
    assert await keeper.deletes(request_id)
    [stone] = await keeper.tombstones()
    assert (stone["request_state"], stone["approved_by"]) == ("CANCELLED", [])


async def bind(keeper: Keeper, request_id: str, nonce: int, state: str = "BOUND", key: str = "first") -> None:
    await keeper.desk.sql(
        "INSERT INTO qtg.evm_nonce_reservation (chain, sender, nonce, request_node_id, attempt_no, reservation_state, "
        "payload_hash) SELECT 'eip155:1', :sender, :nonce, id, attempt_no, :state, 'p' "
        "FROM qtg.movement_request_nodes WHERE request_id::text = :id AND node_key = :key",
        sender=SENDER,
        nonce=nonce,
        state=state,
        id=request_id,
        key=key,
    )


async def reserve(keeper: Keeper, request_id: str, chain_nonce: int) -> int:
    [node, *_] = await keeper.nodes(request_id)
    return await NonceLedger(keeper.desk.engine.database).reserve(
        chain="eip155:1", sender=SENDER, request_node_id=node, attempt_no=9, chain_nonce=chain_nonce
    )


async def test_a_nonce_whose_row_was_deleted_is_never_given_out_again_though_the_chain_s_node_lags(
    keeper: Keeper,
) -> None:
    used, live = await keeper.finished(), await keeper.finished(days=1)
    await bind(keeper, used, 41)
    assert await keeper.deletes(used)
    assert await keeper.desk.rows("SELECT 1 FROM qtg.evm_nonce_reservation") == []
    assert await reserve(keeper, live, chain_nonce=40) == 42


async def test_floors_only_rise(keeper: Keeper) -> None:
    for nonce in (41, 40):
        request_id = await keeper.finished()
        await bind(keeper, request_id, nonce)
        assert await keeper.deletes(request_id)
    assert await keeper.desk.rows("SELECT nonce FROM qtg.evm_nonce_floors") == [{"nonce": 41}]


async def test_a_bound_nonce_that_its_node_did_not_use_holds_until_a_later_one_proves_it_used(keeper: Keeper) -> None:
    unused, later = await keeper.finished(), await keeper.finished(days=1)
    await keeper.desk.sql(
        "INSERT INTO qtg.evm_nonce_reservation (chain, sender, nonce, request_node_id, attempt_no, reservation_state, "
        "payload_hash) SELECT 'eip155:1', :sender, 5, id, 77, 'BOUND', 'p' FROM qtg.movement_request_nodes "
        "WHERE request_id::text = :id AND node_key = 'first'",
        sender=SENDER,
        id=unused,
    )
    await bind(keeper, later, 4)
    assert not await keeper.deletes(unused)
    await bind(keeper, later, 6, key="last")
    assert await keeper.deletes(unused)


async def test_a_nonce_that_the_original_used_after_all_holds_until_a_person_has_seen_it(keeper: Keeper) -> None:
    request_id = await keeper.finished()
    await bind(keeper, request_id, 7)
    await keeper.desk.sql(
        "UPDATE qtg.evm_nonce_reservation SET reservation_state = 'CLOSED', used_by = 'original', used_tx = '0x1', "
        "evidence_step_id = (SELECT min(id) FROM qtg.movement_node_steps)"
    )
    assert not await keeper.deletes(request_id)
    await keeper.desk.sql("UPDATE qtg.evm_nonce_reservation SET acknowledged_by = 'ada'")
    assert await keeper.deletes(request_id)


@pytest.mark.parametrize(("state", "holds"), [("ORDERED", True), ("SENT", True), ("MINED", False)])
async def test_what_fills_a_nonce_of_it_holds_until_it_has_ended(keeper: Keeper, state: str, holds: bool) -> None:
    request_id = await keeper.finished()
    await bind(keeper, request_id, 7, state="RELEASED")
    await keeper.desk.sql(
        "INSERT INTO qtg.evm_nonce_fillers (network_class, chain, sender, nonce, request_node_id, fill_kind, "
        "filler_state, raw_transaction, tx_hash, ordered_by, reason) "
        "SELECT 'sandbox', chain, sender, nonce, request_node_id, 'dead', :state, '0x02', '0x1', 'ada', 'stuck' "
        "FROM qtg.evm_nonce_reservation",
        state=state,
    )
    assert await keeper.deletes(request_id) is not holds


async def test_whoever_works_on_a_row_of_it_wins_and_it_is_left_for_later(keeper: Keeper, database_url: str) -> None:
    request_id, other = await keeper.finished(), await keeper.finished()
    nodes = await keeper.nodes(request_id)
    before = await keeper.tree(request_id, nodes)
    locks = (
        "SELECT 1 FROM qtg.movement_requests WHERE id = %s FOR NO KEY UPDATE",
        "SELECT 1 FROM qtg.movement_request_nodes WHERE request_id = %s AND node_key = 'last' FOR KEY SHARE",
        "SELECT 1 FROM qtg.movement_callback_outbox WHERE request_id = %s FOR NO KEY UPDATE",
    )
    for lock in locks:
        async with await psycopg.AsyncConnection.connect(database_url) as worker:
            await worker.execute(lock, (request_id,))
            batch = await asyncio.wait_for(keeper.batch(), 20)
            assert (batch.locked, batch.held, batch.failed) == (1, 0, 0)
            assert await keeper.tree(request_id, nodes) == before
    assert await keeper.state(other) is None
    assert await keeper.deletes(request_id)


async def test_a_pass_goes_through_a_backlog_in_batches_and_says_what_it_did(keeper: Keeper) -> None:
    ids = [await keeper.finished() for _ in range(3)]
    held = await keeper.finished()
    await keeper.desk.sql(
        "UPDATE qtg.movement_callback_outbox SET status = 'pending' WHERE request_id::text = :id", id=held
    )
    report = (await keeper.a_pass())[Kind.MOVEMENTS]
    assert (report.deleted, report.held, report.remaining, report.failed) == (3, 1, 0, 0)
    assert (report.rows["movement_requests"], report.rows["movement_request_nodes"]) == (3, 9)
    assert report.standing is Standing.CAUGHT_UP
    assert len(await keeper.tombstones()) == len(ids)
    again = (await keeper.a_pass())[Kind.MOVEMENTS]
    assert (again.deleted, again.held, again.standing) == (0, 1, Standing.QUIET)


async def test_one_that_cannot_be_deleted_stops_neither_its_batch_nor_the_other_tables(keeper: Keeper) -> None:
    ids = [await keeper.finished() for _ in range(3)]
    await keeper.desk.sql("CREATE TABLE public.clings (id uuid REFERENCES qtg.movement_requests (id))")
    try:
        await keeper.desk.sql("INSERT INTO public.clings VALUES (CAST(:id AS uuid))", id=ids[1])
        await keeper.desk.sql("INSERT INTO qtg.cycles VALUES ('w', 'sandbox', 'k', now() - interval '31 days')")
        reports = await keeper.a_pass()
    finally:
        await keeper.desk.sql("DROP TABLE public.clings")
    found = reports[Kind.MOVEMENTS]
    assert (found.deleted, found.failed, found.remaining) == (2, 1, 1)
    assert found.standing is Standing.FAILING
    assert ids[1] in found.problem
    assert "clings" in found.problem
    assert reports[Kind.CYCLES].deleted == 1
    assert [await keeper.state(each) for each in ids] == [None, "COMPLETED", None]
    assert len(await keeper.tombstones()) == 2


async def test_a_pass_that_is_killed_between_two_statements_leaves_whole_trees(
    keeper: Keeper, database_url: str
) -> None:
    """The function waits for a row that somebody holds; its session is ended there, in the middle of its deletions."""
    request_id = await keeper.finished()
    nodes = await keeper.nodes(request_id)
    before = await keeper.tree(request_id, nodes)
    async with await psycopg.AsyncConnection.connect(database_url) as holder:
        await holder.execute("SELECT 1 FROM qtg.movement_node_attempts FOR UPDATE")
        deleting = asyncio.create_task(keeper.batch())
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as killer:
            killed = 0
            while not killed:
                cursor = await killer.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'qtg_retention' "
                    "AND wait_event_type = 'Lock' AND datname = current_database()"
                )
                row = await cursor.fetchone()
                assert row is not None
                killed = row[0]
                assert not deleting.done()
                await asyncio.sleep(0)
        with pytest.raises(psycopg.OperationalError):
            await deleting
        assert await keeper.tree(request_id, nodes) == before
        assert await keeper.tombstones() == []
    assert await keeper.deletes(request_id)


@pytest.mark.parametrize(("keep", "batch"), [(timedelta(hours=23), 1), (WINDOW, 0), (WINDOW, 5001)])
async def test_the_database_refuses_a_window_of_less_than_a_day_and_an_unbounded_batch(
    keeper: Keeper, keep: timedelta, batch: int
) -> None:
    request_id = await keeper.finished(days=0.99)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: keeper.deletions.movements(keep, BEGINNING, batch),
        lambda: keeper.deletions.rows(Kind.CYCLES, keep, batch),
    ]
    for call in calls:
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            await call()
    assert await keeper.state(request_id) == "COMPLETED"
