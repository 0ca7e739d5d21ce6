"""Rows outside of movements go when they have settled and are past their window, and evidence only by its functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import LiteralString

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from qtg_dagster.domain.retention import OURS, Kind
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.retention import Deletions, open_deletions, settled_rows
from qtg_dagster.store.roles import APP, RETENTION, ROLES
from qtg_dagster.store.schema.retention_rules import CHILDREN, RULES
from qtg_dagster.store.schema.triggers import DELETED_IN_TIME
from tests.conftest import as_role
from tests.store.conftest import Seed

WINDOW = timedelta(days=30)
#: Tables whose rows reach a movement through a foreign key -> how deletion answers for them.
ANSWERED = {*CHILDREN, "movement_requests", "movement_request_nodes", "movement_node_steps"}


@pytest.fixture
async def deletions(database_url: str) -> AsyncIterator[Deletions]:
    database = open_deletions(as_role(database_url, RETENTION))
    yield Deletions(database)
    await database.close()


@dataclass(frozen=True)
class Case:
    """Rows that go and rows that stay: `{old}` and `{new}` are moments just outside and just inside the window."""

    goes: str
    stays: tuple[str, ...]
    before: str = ""
    when: str = ""


_AUDIT = (
    "INSERT INTO qtg.audit_outbox (id, network_class, actor, action, subject_type, subject_id, promoted_at) VALUES "
)
_EVENTS = (
    "INSERT INTO qtg.audit_events (network_class, sequence, outbox_id, actor, action, subject_type, subject_id, "
    "previous_hash, row_hash) SELECT 's', id, id, 'a', 'x', 't', '1', repeat('0', 64), repeat('a', 64) "
    "FROM generate_series(1, 3) AS id"
)
_SNAPSHOT = (
    "INSERT INTO qtg.balance_snapshots (network_class, venue_key, account, wallet, asset, free, request_started_at, "
    "request_ended_at, complete, recorded_at) VALUES "
)
_BREAKER = "INSERT INTO qtg.breakers (id, network_class, scope, opened_by, reason, closed_at, closed_by) VALUES "
_START = "INSERT INTO qtg.breaker_starts (breaker_id, request_node_id, started_at) VALUES "
_NEWS = "INSERT INTO qtg.alert_deliveries (alert_id, network_class, channel, what, outcome, settled_at) VALUES "
_ALERT = (
    "INSERT INTO qtg.alerts (id, network_class, kind, dedupe_key, severity, title, resolved_at, opened_told_at, "
    "told_severity) VALUES "
)
_STILL_TOLD = f"""WITH a AS ({_ALERT}(5, 's', 'drift', 'e', 'info', 't', {{old}}, NULL, NULL) RETURNING id)
    INSERT INTO qtg.alert_deliveries (alert_id, network_class, channel, what)
    SELECT id, 's', 'c', 'opened' FROM a"""  # noqa: S608
_STILL_STARTED = f"""WITH b AS ({_BREAKER}(4, 's', 'y', 'o', 'r', {{old}}, 'o') RETURNING id)
    INSERT INTO qtg.breaker_starts (breaker_id, request_node_id) SELECT id, gen_random_uuid() FROM b"""  # noqa: S608
_SPEND = (
    "INSERT INTO qtg.velocity_spends VALUES ('s', 'USDC', ((now() - interval '{} days') AT TIME ZONE 'UTC')::date, 1)"
)
_CORE = "INSERT INTO qtg.core_group_events (network_class, event, reason, occurred_at) VALUES "
_RUNNER = (
    "INSERT INTO qtg.runners (id, kind, network_class, host, pid, dagster_run_id, started_at, ended_at, end_reason) "
    "VALUES "
)
_DEATH = (
    "INSERT INTO qtg.core_deaths (network_class, worker, incident, cause, runner_id, dagster_run_id, noticed_by, "
    "detail, noticed_at) VALUES "
)
CASES = {
    Kind.AUDIT_OUTBOX: Case(
        _AUDIT + "(1, 's', 'a', 'x', 't', '1', {old})",
        (
            _AUDIT + "(2, 's', 'a', 'x', 't', '1', {new})",
            _AUDIT + "(3, 's', 'a', 'x', 't', '1', NULL)",
            _AUDIT + "(4, 's', 'a', 'never entered', 't', '1', {old})",
        ),
        before=_EVENTS,
    ),
    Kind.BALANCE_SNAPSHOTS: Case(
        _SNAPSHOT + "('s', 'v', 'a', 'w', 'USDC', 1, {old}, {old}, true, {old})",
        (
            _SNAPSHOT + "('s', 'v', 'a', 'w', 'USDC', 1, {new}, {new}, true, {new})",
            _SNAPSHOT + "('s', 'v', 'a', 'w', 'ETH', 1, {old}, {old}, true, {old})",
        ),
    ),
    Kind.ALERT_DELIVERIES: Case(
        _NEWS + "(1, 's', 'c', 'opened', 'sent', {old})",
        (
            _NEWS + "(2, 's', 'c', 'opened', 'sent', {old})",
            _NEWS + "(3, 's', 'c', 'opened', 'sent', {old})",
            _NEWS + "(1, 's', 'c', 'opened', 'pending', NULL)",
        ),
        before=_ALERT
        + "(1, 's', 'drift', 'a', 'info', 't', {old}, NULL, NULL), "
        + "(2, 's', 'drift', 'b', 'info', 't', {new}, NULL, NULL), "
        + "(3, 's', 'drift', 'c', 'info', 't', NULL, NULL, NULL)",
    ),
    Kind.ALERTS: Case(
        _ALERT + "(1, 's', 'drift', 'a', 'info', 't', {old}, NULL, NULL)",
        (
            _ALERT + "(2, 's', 'drift', 'b', 'info', 't', {new}, NULL, NULL)",
            _ALERT + "(3, 's', 'drift', 'c', 'info', 't', NULL, NULL, NULL)",
            _ALERT + "(4, 's', 'drift', 'd', 'info', 'its end was not told', {old}, {old}, 'info')",
            _STILL_TOLD,
        ),
    ),
    Kind.BREAKER_STARTS: Case(
        _START + "(1, gen_random_uuid(), {old})",
        (_START + "(2, gen_random_uuid(), {old})", _START + "(3, gen_random_uuid(), {old})"),
        before=_BREAKER
        + "(1, 's', 'x', 'o', 'r', {old}, 'o'), (2, 's', 'x', 'o', 'r', {new}, 'o'), "
        + "(3, 's', 'x', 'o', 'r', NULL, NULL)",
    ),
    Kind.BREAKERS: Case(
        _BREAKER + "(1, 's', 'x', 'o', 'r', {old}, 'o')",
        (
            _BREAKER + "(2, 's', 'x', 'o', 'r', {new}, 'o')",
            _BREAKER + "(3, 's', 'x', 'o', 'r', NULL, NULL)",
            _STILL_STARTED,
        ),
    ),
    Kind.CORE_GROUP_EVENTS: Case(
        _CORE + "('s', 'restart', 'r', {old})",
        (_CORE + "('s', 'halt', 'the newest', {old})", _CORE + "('other', 'halt', 'the newest', {old})"),
    ),
    Kind.RUNNERS: Case(
        _RUNNER + "(9001, 'dispatch', 's', 'h', 1, NULL, {old}, {old}, 'finished')",
        (
            _RUNNER + "(9002, 'dispatch', 's', 'h', 1, NULL, {old}, {new}, 'finished')",
            _RUNNER + "(9003, 'dispatch', 's', 'h', 1, NULL, {new}, NULL, NULL)",
        ),
    ),
    Kind.CORE_DEATHS: Case(
        _DEATH + "('s', 'w', 'runner 1', 'crashed', 1, NULL, 'n', 'd', {old})",
        (
            _DEATH + "('s', 'w', 'runner 2', 'crashed', 2, NULL, 'n', 'd', {new})",
            _DEATH + "('s', 'w', 'runner 9004', 'crashed', 9004, NULL, 'n', 'its runner stands', {old})",
            _DEATH + "('s', 'w', 'run x', 'run_failed', NULL, 'x', 'n', 'a runner of its run stands', {old})",
        ),
        before=_RUNNER
        + "(9004, 'd', 's', 'h', 1, NULL, {old}, {old}, 'X'), (9005, 'd', 's', 'h', 1, 'x', {old}, {old}, 'X')",
    ),
    Kind.CYCLES: Case(
        "INSERT INTO qtg.cycles VALUES ('w', 's', '1', {old})",
        ("INSERT INTO qtg.cycles VALUES ('w', 's', '2', {new})",),
    ),
    Kind.VELOCITY_SPENDS: Case(_SPEND.format(31), (_SPEND.format(30),)),
}
_MOMENTS = {"old": "(now() - interval '30 days 1 minute')", "new": "(now() - interval '29 days 23:59')"}


def test_every_kind_of_rows_has_its_cases() -> None:
    assert {*CASES, Kind.CALLBACKS, Kind.MOVEMENTS} == set(OURS)
    assert set(RULES) == set(OURS) - {Kind.MOVEMENTS}


@pytest.mark.parametrize("kind", CASES)
async def test_what_has_settled_and_is_past_its_window_goes_and_the_rest_stays(
    kind: Kind, seed: Seed, deletions: Deletions
) -> None:
    case, table = CASES[kind], RULES[kind].table
    if case.before:
        await seed.sql(case.before.format(**_MOMENTS))
    await seed.sql(case.goes.format(**_MOMENTS))
    [going] = await seed.rows(f"SELECT to_jsonb(t) AS row FROM qtg.{table} t")  # noqa: S608 - our own constant
    for statement in case.stays:
        await seed.sql(statement.format(**_MOMENTS))
    everything = await seed.rows(f"SELECT to_jsonb(t) AS row FROM qtg.{table} t")  # noqa: S608 - the same
    async with seed.database.transaction() as transaction:
        assert (await settled_rows(transaction, kind, WINDOW, 10)).count == 1
    assert await deletions.rows(kind, WINDOW, 100) == 1
    left = await seed.rows(f"SELECT to_jsonb(t) AS row FROM qtg.{table} t")  # noqa: S608 - the same
    assert len(left) == len(everything) - 1
    assert going not in left
    assert await deletions.rows(kind, WINDOW, 100) == 0


async def test_delivered_callbacks_go_before_their_movement_and_those_in_the_dlq_stay(
    seed: Seed, deletions: Deletions
) -> None:
    await seed.movement(None)
    for status, since in (("delivered", "old"), ("delivered", "new"), ("dlq", "old"), ("pending", "old")):
        told = "(request_id, event_type, callback_url, status, delivered_at)"
        values = f"id, 'request_state_changed', 'http://x', '{status}', {_MOMENTS[since]}"
        await seed.sql(
            f"INSERT INTO qtg.movement_callback_outbox {told} SELECT {values} FROM qtg.movement_requests"  # noqa: S608
        )
    assert await deletions.rows(Kind.CALLBACKS, WINDOW, 100) == 0  # its movement goes on, and its numbers with it
    await seed.sql("UPDATE qtg.movement_requests SET finished_at = now()")
    assert await deletions.rows(Kind.CALLBACKS, WINDOW, 100) == 1
    left = await seed.rows("SELECT status FROM qtg.movement_callback_outbox ORDER BY id")
    assert [row["status"] for row in left] == ["delivered", "dlq", "pending"]


async def test_a_batch_is_bounded_and_takes_the_oldest_first(seed: Seed, deletions: Deletions) -> None:
    await seed.sql(
        "INSERT INTO qtg.cycles SELECT 'w', 's', d::text, now() - make_interval(days => 30 + d) "
        "FROM generate_series(1, 9) AS d"
    )
    assert await deletions.rows(Kind.CYCLES, WINDOW, 4) == 4
    left = await seed.rows("SELECT cycle_key FROM qtg.cycles ORDER BY cycle_key")
    assert [row["cycle_key"] for row in left] == ["1", "2", "3", "4", "5"]


async def test_a_row_that_somebody_works_on_is_passed_by(seed: Seed, deletions: Deletions, database_url: str) -> None:
    await seed.sql(
        "INSERT INTO qtg.cycles SELECT 'w', 's', d, now() - interval '31 days' FROM unnest('{a,b}'::text[]) d"
    )
    async with await psycopg.AsyncConnection.connect(database_url) as worker:
        await worker.execute("SELECT 1 FROM qtg.cycles WHERE cycle_key = 'a' FOR UPDATE")
        assert await asyncio.wait_for(deletions.rows(Kind.CYCLES, WINDOW, 10), 20) == 1
        assert await seed.rows("SELECT cycle_key FROM qtg.cycles") == [{"cycle_key": "a"}]
    assert await deletions.rows(Kind.CYCLES, WINDOW, 10) == 1


async def test_a_runner_that_lives_stays_however_old_and_whatever_its_row_says(
    seed: Seed, store: PostgresStore, deletions: Deletions
) -> None:
    async with store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
        await seed.sql(
            "UPDATE qtg.runners SET started_at = now() - interval '90 days', ended_at = now() - interval '60 days'"
        )
        assert await deletions.rows(Kind.RUNNERS, WINDOW, 10) == 0
        assert [row["id"] for row in await seed.rows("SELECT id FROM qtg.runners")] == [runner.runner_id]
    await seed.sql("UPDATE qtg.runners SET ended_at = now() - interval '60 days'")
    assert await deletions.rows(Kind.RUNNERS, WINDOW, 10) == 1


EVIDENCE: dict[str, LiteralString] = {
    "core_group_events": "DELETE FROM qtg.core_group_events",
    "core_deaths": "DELETE FROM qtg.core_deaths",
    "audit_events": "DELETE FROM qtg.audit_events",
}


async def evidence(seed: Seed) -> None:
    for statement in (
        _CORE + "('s', 'restart', 'r', {old}), ('s', 'restart', 'r', {old})",
        _DEATH + "('s', 'w', 'runner 1', 'crashed', 1, NULL, 'n', 'd', {old})",
        _EVENTS,
    ):
        await seed.sql(statement.format(**_MOMENTS))


@pytest.mark.parametrize("role", [*ROLES, None])
@pytest.mark.parametrize("table", EVIDENCE)
async def test_nobody_deletes_evidence_by_plain_sql_not_even_its_owner(
    seed: Seed, database_url: str, table: str, role: str | None
) -> None:
    await evidence(seed)
    url = as_role(database_url, role) if role else database_url
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        if role:  # the mark alone gives no right
            await connection.execute("SELECT set_config('qtg.retention', 'on', false)")
        with pytest.raises(InsufficientPrivilege):
            await connection.execute(EVIDENCE[table])


async def test_what_is_never_deleted_is_kept_by_its_guard_also_under_the_mark_of_deletion(
    seed: Seed, database_url: str
) -> None:
    await evidence(seed)
    assert "audit_events" not in DELETED_IN_TIME
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("SELECT set_config('qtg.retention', 'on', true)")
        with pytest.raises(InsufficientPrivilege):
            await connection.execute(EVIDENCE["audit_events"])


async def test_the_guard_stands_again_within_the_transaction_that_called_the_function(
    seed: Seed, database_url: str
) -> None:
    await evidence(seed)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        cursor = await connection.execute("SELECT qtg.retain_core_group_events('30 days', 10)")
        assert await cursor.fetchone() == (1,)
        with pytest.raises(InsufficientPrivilege):
            await connection.execute(EVIDENCE["core_group_events"])


async def test_nothing_is_rewritten_under_the_mark_of_deletion(seed: Seed, database_url: str) -> None:
    await evidence(seed)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("SELECT set_config('qtg.retention', 'on', true)")
        with pytest.raises(InsufficientPrivilege):
            await connection.execute("UPDATE qtg.core_deaths SET detail = 'nothing happened'")


async def test_the_function_is_its_role_s_alone(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(as_role(database_url, APP), autocommit=True) as connection:
        with pytest.raises(InsufficientPrivilege):
            await connection.execute("SELECT qtg.retain_cycles('30 days', 1)")
    async with await psycopg.AsyncConnection.connect(as_role(database_url, RETENTION), autocommit=True) as connection:
        with pytest.raises(InsufficientPrivilege):
            await connection.execute("SELECT 1 FROM qtg.cycles")
        await connection.execute("SELECT qtg.retain_cycles('30 days', 1)")


async def test_each_table_that_refers_to_movements_is_answered_for(seed: Seed) -> None:
    """A new one must go with its movement (CHILDREN) or hold it (HOLDS), else no movement of it is ever deleted."""
    found = await seed.rows("""
        SELECT DISTINCT c.relname FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid
        WHERE f.contype = 'f' AND f.confrelid = ANY (ARRAY['qtg.movement_requests', 'qtg.movement_request_nodes',
            'qtg.movement_node_steps', 'qtg.movement_node_attempts', 'qtg.movement_callback_outbox',
            'qtg.movement_approvals', 'qtg.evm_nonce_reservation']::regclass[])
    """)
    assert {row["relname"] for row in found} - ANSWERED == set()


async def test_each_reference_to_what_is_deleted_has_its_index(seed: Seed) -> None:
    """The deletion of a row looks for those that refer to it: without an index it reads their whole table."""
    found = await seed.rows("""
        SELECT f.conrelid::regclass::text || '.' || a.attname AS reference
        FROM pg_constraint f JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[1]
        WHERE f.contype = 'f' AND f.confrelid = ANY (ARRAY['qtg.movement_requests', 'qtg.movement_request_nodes',
            'qtg.movement_node_steps', 'qtg.movement_node_attempts', 'qtg.movement_callback_outbox',
            'qtg.movement_approvals', 'qtg.evm_nonce_reservation', 'qtg.breakers']::regclass[])
          AND NOT EXISTS (
            SELECT FROM pg_index i WHERE i.indrelid = f.conrelid AND i.indkey[0] = f.conkey[1]
              AND (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) = '(' || a.attname || ' IS NOT NULL)'))
    """)
    assert found == []


async def test_a_pass_over_many_rows_within_their_window_reads_next_to_nothing(
    seed: Seed, database: Database, deletions: Deletions
) -> None:
    await seed.sql(
        "INSERT INTO qtg.cycles SELECT 'w', 's', d::text, now() - make_interval(secs => d) "
        "FROM generate_series(1, 20000) AS d"
    )
    await seed.sql(
        "INSERT INTO qtg.audit_outbox (network_class, actor, action, subject_type, subject_id, promoted_at) "
        "SELECT 's', 'a', 'x', 't', d::text, now() FROM generate_series(1, 20000) AS d"
    )
    async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as owner:
        for kind, table in ((Kind.CYCLES, "cycles"), (Kind.AUDIT_OUTBOX, "audit_outbox")):
            await owner.execute(f"ANALYZE qtg.{table}".encode())
            source = RULES[kind].source.replace("keep", "interval '30 days'")
            plan = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT 1 FROM {source} LIMIT 500"  # noqa: S608 - our own
            row = await (await owner.execute(plan.encode())).fetchone()
            assert row is not None
            top = row[0][0]["Plan"]
            assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 20, kind
        assert await deletions.rows(Kind.CYCLES, WINDOW, 500) == 0
