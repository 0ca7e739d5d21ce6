"""Promotion of audit entries on PostgreSQL: in order, exactly once, one chain however many promote."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege, UniqueViolation
from sqlalchemy import text

from qtg_dagster import faults
from qtg_dagster.domain.audit_chain import START, AuditEvent, ChainReader, Head
from qtg_dagster.faults import FaultInjected
from qtg_dagster.store import audit_chain
from qtg_dagster.store.audit import audit
from qtg_dagster.store.audit_chain import chain_head, promote_entries, read_events, read_strays, waiting_entries
from qtg_dagster.store.database import Database, Transaction
from qtg_dagster.store.roles import APP, SENDER
from tests.conftest import as_role
from tests.engine.plans import until

CLASS = "sandbox"


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Database]:
    """Whoever does deeds."""
    database = Database(as_role(database_url, APP), pool_size=12)
    yield database
    await database.close()


@pytest.fixture
async def sender(database_url: str) -> AsyncIterator[Database]:
    """Whoever promotes."""
    database = Database(as_role(database_url, SENDER), pool_size=8)
    yield database
    await database.close()


async def write(transaction: Transaction, subject: str, network_class: str = CLASS) -> None:
    details = {"note": f"{subject} für 1.50", "n": 3, "nested": {"b": [1, None], "a": True}}
    await audit(
        transaction, network_class=network_class, actor="ada", action="move", subject_id=subject, details=details
    )


async def wrote(database: Database, *subjects: str, network_class: str = CLASS) -> None:
    async with database.transaction() as transaction:
        for subject in subjects:
            await write(transaction, subject, network_class)


async def chain(database: Database, network_class: str = CLASS) -> list[AuditEvent]:
    found = await read_events(database, network_class, after=0, until=2**62, most=100_000)
    assert [one.entry for one in found] == ["same"] * len(found)
    return [one.event for one in found]


def broken(events: list[AuditEvent]) -> list[str]:
    reader = ChainReader(events[0].network_class if events else CLASS)
    return [each.told() for event in events for each in reader.take(event)]


async def test_entries_become_a_chain_in_the_order_of_their_deeds(app: Database, sender: Database) -> None:
    await wrote(app, "a", "b")
    await wrote(app, "c")
    assert (await waiting_entries(sender, CLASS)).entries == 3
    assert [await promote_entries(sender, CLASS, 2) for _ in range(3)] == [2, 1, 0]
    events = await chain(sender)
    assert [(event.sequence, event.subject_id) for event in events] == [(1, "a"), (2, "b"), (3, "c")]
    assert broken(events) == []
    assert await chain_head(sender, CLASS) == Head(3, events[-1].row_hash)
    assert (await waiting_entries(sender, CLASS)).entries == 0


async def test_an_entry_whose_transaction_ends_late_is_late_and_never_skipped(app: Database, sender: Database) -> None:
    """Its id was drawn first. Nothing waits for it: somebody's open transaction must not stall the trail."""
    async with app.transaction() as slow:
        await write(slow, "drawn first")
        await wrote(app, "drawn second")
        assert await promote_entries(sender, CLASS, 10) == 1
        await wrote(app, "drawn third")
        assert await promote_entries(sender, CLASS, 10) == 1
        assert await promote_entries(sender, CLASS, 10) == 0
    assert await promote_entries(sender, CLASS, 10) == 1
    events = await chain(sender)
    assert [(event.subject_id, event.outbox_id) for event in events] == [
        ("drawn second", 2),
        ("drawn third", 3),
        ("drawn first", 1),
    ]
    assert broken(events) == []


async def test_a_deed_that_rests_on_another_comes_behind_it(app: Database, sender: Database) -> None:
    """The second waits for the first's lock, as decisions about one movement do."""
    await wrote(app, "before")
    lock = text("SELECT pg_advisory_xact_lock(1)")

    async def second() -> None:
        async with app.transaction() as transaction:
            await transaction.execute(lock)
            await write(transaction, "second")

    async with app.transaction() as first:
        await first.execute(lock)
        waiting = asyncio.create_task(second())
        await until(lambda: held_up(app), "the second waits for the first")
        await write(first, "first")
        await promote_entries(sender, CLASS, 10)
    await waiting
    await promote_entries(sender, CLASS, 10)
    assert [event.subject_id for event in await chain(sender)] == ["before", "first", "second"]


async def held_up(database: Database) -> bool:
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 1")
    async with database.transaction() as transaction:
        return bool((await transaction.execute(waiting)).scalar_one())


async def test_a_rolled_back_deed_leaves_no_trace_and_no_gap(app: Database, sender: Database) -> None:
    async with app.transaction() as transaction:
        await write(transaction, "never")
        await transaction.rollback()
    await wrote(app, "done")
    await promote_entries(sender, CLASS, 10)
    [event] = await chain(sender)
    assert (event.sequence, event.outbox_id, event.subject_id) == (1, 2, "done")


async def test_many_promoters_and_writers_at_once_make_one_chain_with_each_entry_once(
    app: Database, sender: Database
) -> None:
    done = asyncio.Event()

    async def act(name: int) -> None:
        for number in range(40):
            await wrote(app, f"{name}.{number}")

    async def promote() -> None:
        while not done.is_set() or (await waiting_entries(sender, CLASS)).entries:
            await promote_entries(sender, CLASS, 7)

    promoters = [asyncio.create_task(promote()) for _ in range(5)]
    await asyncio.gather(*(act(name) for name in range(5)))
    done.set()
    await asyncio.gather(*promoters)
    events = await chain(sender)
    assert broken(events) == []
    assert [event.sequence for event in events] == list(range(1, 201))
    assert {event.subject_id for event in events} == {f"{name}.{n}" for name in range(5) for n in range(40)}
    for name in range(5):
        mine = [event.subject_id for event in events if event.subject_id.startswith(f"{name}.")]
        assert mine == [f"{name}.{number}" for number in range(40)]


PROMOTE = """
import asyncio, sys
from qtg_dagster.store.audit_chain import promote_entries, waiting_entries
from qtg_dagster.store.database import Database

async def main() -> None:
    sender, mine = Database(sys.argv[1], pool_size=1), 0
    print("ready", flush=True)
    sys.stdin.readline()
    while (await waiting_entries(sender, "sandbox")).entries:
        mine += await promote_entries(sender, "sandbox", 7)
    await sender.close()
    print(mine)

asyncio.run(main())
"""


def begin_promoting(url: str) -> subprocess.Popen[str]:
    command, pipe = [sys.executable, "-c", PROMOTE, url], subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


async def test_promoters_in_processes_of_their_own_make_one_chain(app: Database, database_url: str) -> None:
    await wrote(app, *(str(number) for number in range(400)))
    processes = [begin_promoting(as_role(database_url, SENDER)) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], ended
    assert sum(int(said) for said, _ in ended) == 400
    events = await chain(app)
    assert broken(events) == []
    assert [event.subject_id for event in events] == [str(number) for number in range(400)]


async def test_while_another_promotes_nobody_waits(app: Database, sender: Database, database_url: str) -> None:
    await wrote(app, "a")
    with psycopg.connect(database_url) as other:
        key = audit_chain.zlib.crc32(CLASS.encode()) & 0x7FFFFFFF
        other.execute("SELECT pg_advisory_xact_lock(%s, %s)", (audit_chain.PROMOTER_LOCK_CLASS, key))
        assert await promote_entries(sender, CLASS, 10) == 0
        other.rollback()
    assert await promote_entries(sender, CLASS, 10) == 1


async def test_each_network_class_has_a_chain_of_its_own(app: Database, sender: Database) -> None:
    await wrote(app, "a", "b")
    await wrote(app, "x", network_class="mainnet")
    assert await promote_entries(sender, "mainnet", 10) == 1
    assert await promote_entries(sender, CLASS, 10) == 2
    assert [event.sequence for event in await chain(sender, "mainnet")] == [1]
    assert broken(await chain(sender)) == []
    assert await chain_head(sender, "testnet") == START


@pytest.mark.parametrize("passing", [1, 2])
async def test_an_error_before_the_commit_promotes_nothing_and_one_behind_it_all(
    app: Database, sender: Database, passing: int
) -> None:
    await wrote(app, "a", "b")
    faults.arm(f"audit_promote:raise:{passing}")
    try:
        with pytest.raises(FaultInjected):
            await promote_entries(sender, CLASS, 10)
    finally:
        faults.arm("")
    assert len(await chain(sender)) == (0 if passing == 1 else 2)
    await promote_entries(sender, CLASS, 10)
    assert [event.subject_id for event in await chain(sender)] == ["a", "b"]


async def test_a_promoter_that_stops_in_the_middle_is_cut_off_and_others_go_on(
    app: Database, sender: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session holds the lock with nothing to say: the server ends it."""
    await wrote(app, "a")
    monkeypatch.setattr(audit_chain, "HUNG_SECONDS", 0.1)
    rival = Database(as_role(database_url, SENDER), pool_size=1)

    def stop(_: object) -> None:
        monkeypatch.setattr(audit_chain, "fault_point", lambda _: None)
        with psycopg.connect(database_url, autocommit=True) as owner:
            while owner.execute(
                "SELECT count(*) FROM pg_locks WHERE classid = %s", (audit_chain.PROMOTER_LOCK_CLASS,)
            ).fetchone() != (0,):
                pass

    monkeypatch.setattr(audit_chain, "fault_point", stop)
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        await promote_entries(sender, CLASS, 10)
    assert await promote_entries(rival, CLASS, 10) == 1
    await rival.close()


async def test_the_database_refuses_a_fork_and_a_second_event_of_an_entry(
    app: Database, sender: Database, database_url: str
) -> None:
    await wrote(app, "a")
    await promote_entries(sender, CLASS, 10)
    forged = (
        "INSERT INTO qtg.audit_events (network_class, sequence, outbox_id, actor, action, subject_type, subject_id, "
        "previous_hash, row_hash) VALUES ('sandbox', {}, {}, 'm', 'm', 'm', 'm', repeat('0', 64), repeat('a', 64))"
    )
    with psycopg.connect(as_role(database_url, SENDER), autocommit=True) as connection:
        for sequence, outbox_id in ((1, 99), (2, 1)):
            with pytest.raises(UniqueViolation):
                connection.execute(forged.format(sequence, outbox_id))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE qtg.audit_outbox SET actor = 'mallory'",
        "UPDATE qtg.audit_outbox SET promoted_at = now(), actor = 'mallory' WHERE promoted_at IS NULL",
        "UPDATE qtg.audit_outbox SET promoted_at = NULL WHERE promoted_at IS NOT NULL",
        "UPDATE qtg.audit_outbox SET promoted_at = now() WHERE promoted_at IS NOT NULL",
        "DELETE FROM qtg.audit_outbox",
        "DELETE FROM qtg.audit_outbox WHERE promoted_at IS NOT NULL",
    ],
)
async def test_an_entry_changes_once_and_stays_for_a_day_even_for_the_owner(
    app: Database, sender: Database, database_url: str, statement: str
) -> None:
    await wrote(app, "a")
    await promote_entries(sender, CLASS, 1)
    await wrote(app, "b")
    with psycopg.connect(database_url, autocommit=True) as owner:
        with pytest.raises(InsufficientPrivilege, match="audit_outbox: an entry"):
            owner.execute(statement)  # type: ignore[call-overload]
        assert owner.execute("SELECT count(*) FROM qtg.audit_outbox WHERE actor = 'ada'").fetchone() == (2,)


def test_an_entry_may_be_deleted_a_day_after_its_promotion(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(
            "INSERT INTO qtg.audit_outbox (network_class, actor, action, subject_type, subject_id, promoted_at) "
            "VALUES ('sandbox', 'ada', 'move', 'x', 'y', now() - interval '25 hours')"
        )
        owner.execute("DELETE FROM qtg.audit_outbox")
        assert owner.execute("SELECT count(*) FROM qtg.audit_outbox").fetchone() == (0,)


async def test_a_marked_entry_without_an_event_is_found(app: Database, sender: Database, database_url: str) -> None:
    await wrote(app, "a", "b")
    await wrote(app, "x", network_class="mainnet")
    await promote_entries(sender, CLASS, 1)
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute("UPDATE qtg.audit_outbox SET promoted_at = now() WHERE promoted_at IS NULL")
    assert await read_strays(sender, CLASS, after=0, most=2) == (2, [2])
    assert await read_strays(sender, CLASS, after=2, most=2) == (3, [])
    assert await read_strays(sender, CLASS, after=3, most=2) == (None, [])
