"""Whatever a database's owner does to the audit trail is found, named, and stays on record until it is set right."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from qtg_dagster.domain.audit_chain import BreakKind, Head
from qtg_dagster.domain.errors import ConfigurationError, Conflict
from qtg_dagster.domain.workers import Claimant
from qtg_dagster.engine.parts import Engine
from qtg_dagster.secret import SecretSource
from qtg_dagster.settings import Settings
from qtg_dagster.store.audit import audit
from qtg_dagster.store.audit_chain import read_events
from qtg_dagster.store.audit_verifications import audit_chain_problem, last_verification
from qtg_dagster.store.database import Database
from qtg_dagster.store.roles import SENDER
from qtg_dagster.upkeep import audit_trail
from qtg_dagster.upkeep.audit_checkpoints import checkpoint_place, read_marks
from qtg_dagster.upkeep.audit_promoter import AuditCourier
from qtg_dagster.upkeep.audit_trail import verify_trail
from qtg_dagster.upkeep.audit_verification import sign_head, verify_and_record
from tests.conftest import as_role
from tests.engine.desk import Desk
from tests.tampering import tamper

Sql = Callable[..., None]
Trail = Callable[[int], Awaitable[None]]


@pytest.fixture
async def sender(database_url: str) -> AsyncIterator[Database]:
    database = Database(as_role(database_url, SENDER), pool_size=2)
    yield database
    await database.close()


@pytest.fixture
def owner_does(database_url: str) -> Sql:
    return partial(tamper, database_url)


@pytest.fixture
def signing(engine: Engine, tmp_path: Path) -> Settings:
    """Settings with a place for checkpoints."""
    (tmp_path / "checkpoints").mkdir()
    key = tmp_path / "audit.pem"
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    key.write_bytes(pem)
    places = {"audit_checkpoint_folder": tmp_path / "checkpoints", "audit_checkpoint_key": SecretSource(file=key)}
    return engine.settings.model_copy(update=places)


@pytest.fixture
async def trail(engine: Engine, sender: Database, desk: Desk) -> Trail:
    """Does so many deeds and promotes them."""
    courier = AuditCourier(sender, engine.settings, batch=3)

    async def extend(many: int) -> None:
        async with engine.database.transaction() as tx:
            for number in range(many):
                await audit(
                    tx,
                    network_class="sandbox",
                    actor="ada",
                    action="move",
                    subject_id=f"s{number}",
                    details={"n": number},
                )
        while await courier.waiting():
            await courier.work(desk.runner, None)  # type: ignore[arg-type]

    return extend


async def test_the_courier_promotes_as_the_senders_role_and_counts_what_waits(
    engine: Engine, sender: Database, desk: Desk
) -> None:
    courier = AuditCourier(sender, engine.settings, batch=2)
    assert (courier.worker, courier.interval_seconds, courier.in_flight) == ("audit_outbox_promoter", 1.0, 0)
    async with engine.database.transaction() as tx:
        for number in range(3):
            await audit(tx, network_class="sandbox", actor="a", action="b", subject_id=str(number), details={})
        await audit(tx, network_class="mainnet", actor="a", action="b", subject_id="x", details={})
    runner: Claimant = desk.runner
    assert await courier.waiting() == 2, "counted up to a batch"
    assert [await courier.work(runner, None) for _ in range(3)] == [2, 1, 0]  # type: ignore[arg-type]
    assert await courier.waiting() == 0
    await courier.finish(0)


async def test_a_long_trail_is_read_in_pages_and_right(
    engine: Engine, trail: Trail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_trail, "PAGE", 4)
    await trail(11)
    report = await verify_trail(engine.database, "sandbox")
    assert (report.right, report.rows, report.head.sequence, report.complete) == (True, 11, 11, True)
    assert report.waiting.entries == 0


async def test_an_empty_trail_is_right(engine: Engine) -> None:
    verified = await verify_and_record(engine.database, engine.settings)
    assert (verified.report.right, verified.report.rows) == (True, 0)
    await verify_and_record(engine.database, engine.settings)


TAMPERINGS = [
    ("UPDATE qtg.audit_events SET actor = 'mallory' WHERE sequence = 4", 4, BreakKind.CHANGED),
    ("UPDATE qtg.audit_events SET details = '{}' WHERE sequence = 4", 4, BreakKind.CHANGED),
    (
        "UPDATE qtg.audit_events SET occurred_at = occurred_at - interval '1 us' WHERE sequence = 4",
        4,
        BreakKind.CHANGED,
    ),
    ("UPDATE qtg.audit_events SET promoted_at = promoted_at - interval '1 s' WHERE sequence = 1", 1, BreakKind.CHANGED),
    ("UPDATE qtg.audit_events SET row_hash = repeat('a', 64) WHERE sequence = 7", 7, BreakKind.CHANGED),
    ("UPDATE qtg.audit_events SET previous_hash = repeat('a', 64) WHERE sequence = 1", 1, BreakKind.CHANGED),
    ("DELETE FROM qtg.audit_events WHERE sequence = 4", 4, BreakKind.MISSING),
    ("DELETE FROM qtg.audit_events WHERE sequence = 1", 1, BreakKind.MISSING),
    ("DELETE FROM qtg.audit_events WHERE sequence > 5", None, BreakKind.ENTRY_WITHOUT_EVENT),
    ("UPDATE qtg.audit_events SET sequence = 99 WHERE sequence = 4", 4, BreakKind.MISSING),
    ("DELETE FROM qtg.audit_outbox WHERE id = 4", 4, BreakKind.EVENT_WITHOUT_ENTRY),
    ("UPDATE qtg.audit_outbox SET actor = 'mallory' WHERE id = 4", 4, BreakKind.ENTRY_DIFFERS),
    ("UPDATE qtg.audit_outbox SET details = '{}' WHERE id = 4", 4, BreakKind.ENTRY_DIFFERS),
    ("UPDATE qtg.audit_outbox SET promoted_at = NULL WHERE id = 4", 4, BreakKind.ENTRY_DIFFERS),
]


@pytest.mark.parametrize(("statement", "sequence", "kind"), TAMPERINGS, ids=[each[0][4:70] for each in TAMPERINGS])
async def test_what_was_done_to_a_row_is_named(
    engine: Engine, trail: Trail, owner_does: Sql, statement: str, sequence: int, kind: BreakKind
) -> None:
    await trail(7)
    owner_does(statement)
    report = await verify_trail(engine.database, "sandbox")
    assert (report.breaks[0].sequence, report.breaks[0].kind) == (sequence, kind)
    assert report.problem is not None
    assert "sandbox" in report.problem


async def test_a_row_put_in_at_the_end_has_no_entry(engine: Engine, trail: Trail, owner_does: Sql) -> None:
    await trail(3)
    owner_does(
        "INSERT INTO qtg.audit_events (network_class, sequence, outbox_id, actor, action, subject_type, subject_id, "
        "previous_hash, row_hash) "
        "SELECT 'sandbox', 4, 77, 'grace', 'approve', 'movement_request', 'x', row_hash, row_hash "
        "FROM qtg.audit_events WHERE sequence = 3"
    )
    owner_does(rehash_from=4)
    report = await verify_trail(engine.database, "sandbox")
    assert [(one.sequence, one.kind) for one in report.breaks] == [(4, BreakKind.EVENT_WITHOUT_ENTRY)]


async def test_an_entry_that_was_kept_long_enough_may_be_gone(engine: Engine, trail: Trail, owner_does: Sql) -> None:
    await trail(3)
    owner_does(
        "UPDATE qtg.audit_events SET promoted_at = promoted_at - interval '2 days'", "DELETE FROM qtg.audit_outbox"
    )
    owner_does(rehash_from=1)
    assert (await verify_trail(engine.database, "sandbox")).right
    strict = await verify_trail(engine.database, "sandbox", every_entry=True)
    assert strict.many_breaks == 3, "rows that say they are old, among those that must be young, were put in"


async def test_only_what_is_new_is_read_again_and_what_was_found_stays_until_all_is_right(
    engine: Engine, trail: Trail, owner_does: Sql, sender: Database
) -> None:
    database, settings = engine.database, engine.settings
    await trail(5)
    assert (await verify_and_record(database, settings)).report.rows == 5
    await trail(2)
    second = (await verify_and_record(database, settings)).report
    assert (second.rows, second.complete, second.head.sequence) == (3, False, 7)
    assert (await verify_and_record(database, settings)).report.rows == 1
    assert await audit_chain_problem(sender, "sandbox") is None
    owner_does("UPDATE qtg.audit_events SET actor = 'mallory' WHERE sequence = 2")
    assert (await verify_and_record(database, settings)).report.right, "what is old is read once a day"
    found = (await verify_and_record(database, settings, complete=True)).report
    assert (found.breaks[0].sequence, found.complete) == (2, True)
    await trail(1)
    again = (await verify_and_record(database, settings)).report
    assert (again.complete, again.right) == (True, False), "a broken trail is not trusted to begin in the middle"
    told = await audit_chain_problem(sender, "sandbox")
    assert told is not None
    assert told.startswith("sandbox sequence 2: changed")
    owner_does("UPDATE qtg.audit_events SET actor = 'ada' WHERE sequence = 2")
    assert (await verify_and_record(database, settings)).report.right
    assert await audit_chain_problem(sender, "sandbox") is None


async def test_the_whole_chain_is_read_when_its_time_has_come(engine: Engine, trail: Trail, owner_does: Sql) -> None:
    await trail(3)
    await verify_and_record(engine.database, engine.settings)
    owner_does("UPDATE qtg.audit_verifications SET verified_at = now() - interval '1 day'")
    assert (await verify_and_record(engine.database, engine.settings)).report.complete


async def test_a_tail_that_was_cut_off_contradicts_the_last_verification(
    engine: Engine, trail: Trail, owner_does: Sql
) -> None:
    await trail(5)
    await verify_and_record(engine.database, engine.settings)
    owner_does("DELETE FROM qtg.audit_events WHERE sequence > 3", "DELETE FROM qtg.audit_outbox WHERE id > 3")
    for complete in (False, True):
        found = (await verify_and_record(engine.database, engine.settings, complete=complete)).report
        assert found.breaks[0].kind is BreakKind.MISSING
        assert "knows row 5" in found.breaks[0].detail


async def test_a_trail_that_an_owner_hashed_anew_contradicts_a_signed_checkpoint(
    engine: Engine, trail: Trail, owner_does: Sql, signing: Settings
) -> None:
    await trail(4)
    first = await verify_and_record(engine.database, signing)
    assert first.checkpoint is not None
    assert first.checkpoint.name == "sandbox-000000000004.json"
    await trail(4)
    second = (await verify_and_record(engine.database, signing)).checkpoint
    assert second is not None
    owner_does(
        "UPDATE qtg.audit_events SET actor = 'mallory' WHERE sequence = 6",
        "UPDATE qtg.audit_outbox SET actor = 'mallory' WHERE id = 6",
        "DELETE FROM qtg.audit_verifications",
    )
    owner_does(rehash_from=6)
    assert (await verify_trail(engine.database, "sandbox")).right, "the chain alone cannot tell"
    found = await verify_and_record(engine.database, signing)
    assert found.checkpoint is None
    assert [(one.sequence, one.kind) for one in found.report.breaks] == [(8, BreakKind.NOT_AS_SIGNED)]
    assert "of rows 5 to 8, some were replaced" in found.report.breaks[0].detail
    with pytest.raises(Conflict, match="nothing was signed"):
        await sign_head(engine.database, signing)


async def test_the_same_head_is_signed_once_and_a_file_is_never_written_over(
    engine: Engine, trail: Trail, signing: Settings
) -> None:
    await trail(2)
    one = (await sign_head(engine.database, signing)).checkpoint
    assert one is not None
    before = one.read_bytes()
    assert (await sign_head(engine.database, signing)).checkpoint == one
    assert one.read_bytes() == before
    assert [each.name for each in one.parent.iterdir()] == [one.name]


@pytest.mark.parametrize("field", ["sequence", "row_hash", "at", "network_class"])
async def test_a_checkpoint_file_that_was_changed_is_no_evidence_and_is_told(
    engine: Engine, trail: Trail, signing: Settings, field: str
) -> None:
    await trail(2)
    file = (await sign_head(engine.database, signing)).checkpoint
    assert file is not None
    document = json.loads(file.read_text())
    forged = {"sequence": 3, "row_hash": "a" * 64, "at": "2020-01-01T00:00:00.000000Z", "network_class": "mainnet"}
    file.write_text(json.dumps({**document, field: forged[field]}))
    place = checkpoint_place(signing)
    assert place is not None
    marks, wrong = read_marks(
        [file], document["network_class"] if field != "network_class" else "mainnet", [place.public_key]
    )
    assert marks == []
    assert [each.kind for each in wrong] == [BreakKind.NOT_AS_SIGNED]


async def test_a_signature_by_another_key_counts_for_nothing(engine: Engine, trail: Trail, signing: Settings) -> None:
    await trail(2)
    file = (await sign_head(engine.database, signing)).checkpoint
    place = checkpoint_place(signing)
    assert file is not None
    assert place is not None
    marks, wrong = read_marks([file.parent], "sandbox", ["0" * 64])
    assert (marks, len(wrong)) == ([], 1)
    marks, wrong = read_marks([file.parent], "sandbox", ["0" * 64, place.public_key])
    assert ([mark.head.sequence for mark in marks], wrong) == ([2], [])
    assert read_marks([file.parent], "sandbox", [place.public_key], least=3) == ([], [])
    assert read_marks([file.parent], "mainnet", [place.public_key]) == ([], [])


async def test_half_a_place_and_a_broken_file_are_refused_by_name(
    engine: Engine, signing: Settings, tmp_path: Path
) -> None:
    half = signing.model_copy(update={"audit_checkpoint_folder": None})
    with pytest.raises(ConfigurationError, match="set both or none"):
        checkpoint_place(half)
    gone = signing.model_copy(update={"audit_checkpoint_folder": tmp_path / "not mounted"})
    with pytest.raises(ConfigurationError, match="not mounted is not there"):
        await verify_and_record(engine.database, gone)
    with pytest.raises(ConfigurationError, match="MG_AUDIT_CHECKPOINT_FOLDER"):
        await sign_head(engine.database, engine.settings)
    (tmp_path / "torn.json").write_text('{"sequence": 1')
    with pytest.raises(ConfigurationError, match=r"torn\.json: no checkpoint"):
        read_marks([tmp_path / "torn.json"], "sandbox", ["0" * 64])
    secret = tmp_path / "not.pem"
    secret.write_text("canary-1234")
    with pytest.raises(ConfigurationError) as refused:
        checkpoint_place(signing.model_copy(update={"audit_checkpoint_key": SecretSource(file=secret)}))
    assert "canary" not in str(refused.value)


async def test_details_that_hold_a_secret_are_promoted_without_it(engine: Engine, sender: Database, desk: Desk) -> None:
    async with engine.database.transaction() as tx:
        details = {"api_key": "canary-9876", "note": "https://user:canary-9876@host/"}
        await audit(tx, network_class="sandbox", actor="a", action="b", subject_id="c", details=details)
    await AuditCourier(sender, engine.settings).work(desk.runner, None)  # type: ignore[arg-type]
    [one] = await read_events(engine.database, "sandbox", after=0, until=9, most=9)
    assert "canary" not in one.event.details


async def test_the_last_verification_is_kept_with_its_head(engine: Engine, trail: Trail) -> None:
    await trail(2)
    report = (await verify_and_record(engine.database, engine.settings)).report
    last = await last_verification(engine.database, "sandbox")
    assert last is not None
    assert (last.head, last.complete, last.problem, last.recent) == (report.head, True, None, True)
    assert isinstance(last.head, Head)
