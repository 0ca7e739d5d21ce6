"""Whatever is done to a chain of audit events is found, and the first bad row is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.audit_chain import (
    GENESIS,
    START,
    AuditEvent,
    Break,
    BreakKind,
    ChainReader,
    Head,
    Mark,
    export_line,
    hash_fields,
    hash_of,
)

WORDS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)


def row(before: Head, words: Sequence[str], network_class: str = "sandbox", outbox_id: int = 0) -> AuditEvent:
    """The next row of a chain."""
    sequence = before.sequence + 1
    fields = (before.row_hash, network_class, sequence, outbox_id or sequence, *words)
    return AuditEvent(*fields, hash_fields(fields))  # type: ignore[arg-type]


def chain_of(texts: Sequence[Sequence[str]]) -> list[AuditEvent]:
    events: list[AuditEvent] = []
    head = START
    for words in texts:
        events.append(row(head, words))
        head = Head(events[-1].sequence, events[-1].row_hash)
    return events


CHAINS = st.lists(st.tuples(*[WORDS] * 7), min_size=1, max_size=8).map(chain_of)


def read(events: Sequence[AuditEvent], marks: Sequence[Mark] = (), start: Head = START) -> list[Break]:
    reader = ChainReader("sandbox", start, marks)
    found = reader.begin()
    for event in events:
        found += reader.take(event)
    return found + reader.end()


def signed(event: AuditEvent) -> Mark:
    return Mark(Head(event.sequence, event.row_hash), "checkpoint")


@given(CHAINS)
def test_a_chain_as_it_was_written_is_right_from_its_start_and_from_any_row(events: list[AuditEvent]) -> None:
    marks = [signed(event) for event in events]
    assert read(events, marks) == []
    for place, event in enumerate(events):
        assert read(events[place + 1 :], marks, Head(event.sequence, event.row_hash)) == []


@given(CHAINS, st.data())
def test_a_changed_field_is_found_in_its_row(events: list[AuditEvent], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(events) - 1))
    field = data.draw(st.sampled_from([f for f in AuditEvent._fields if f not in ("sequence", "network_class")]))
    old = getattr(events[place], field)
    new = data.draw(st.integers(0, 99) if isinstance(old, int) else WORDS)
    if new == old:
        return
    changed = [*events]
    changed[place] = events[place]._replace(**{field: new})
    first = read(changed)[0]
    assert (first.sequence, first.kind) == (place + 1, BreakKind.CHANGED)


@given(CHAINS, st.data())
def test_a_row_that_was_changed_and_hashed_anew_is_found_by_the_one_after_it_or_by_a_mark(
    events: list[AuditEvent], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(events) - 1))
    forged = events[place]._replace(actor=events[place].actor + "x")
    forged = forged._replace(row_hash=hash_of(forged))
    changed = [*events[:place], forged, *events[place + 1 :]]
    if place < len(events) - 1:
        assert (read(changed)[0].sequence, read(changed)[0].kind) == (place + 1, BreakKind.CHANGED)
    found = read(changed, [signed(events[place])])
    assert (found[0].sequence, found[0].kind) == (place + 1, BreakKind.NOT_AS_SIGNED)


@given(CHAINS, st.data())
def test_a_chain_that_was_all_hashed_anew_contradicts_the_next_mark(
    events: list[AuditEvent], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(events) - 1))
    seen = data.draw(st.integers(place, len(events) - 1))
    texts = [list(event[4:11]) for event in events]
    texts[place][2] += "x"
    rewritten = chain_of(texts)
    assert read(rewritten) == []  # the chain alone cannot tell
    found = read(rewritten, [signed(event) for event in (*events[:place], events[seen])])
    assert [(one.sequence, one.kind) for one in found] == [(seen + 1, BreakKind.NOT_AS_SIGNED)]
    assert f"of rows {place + 1} to {seen + 1}," in found[0].detail


@given(CHAINS, st.data())
def test_a_row_that_is_gone_is_named(events: list[AuditEvent], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(events) - 1))
    left = events[:place] + events[place + 1 :]
    found = read(left, [signed(events[-1])])
    assert (found[0].sequence, found[0].kind) == (place + 1, BreakKind.MISSING)


@given(CHAINS, st.data())
def test_a_tail_that_was_cut_off_is_found_against_a_mark_and_by_nothing_else(
    events: list[AuditEvent], data: st.DataObject
) -> None:
    kept = data.draw(st.integers(0, len(events) - 1))
    assert read(events[:kept]) == []
    found = read(events[:kept], [signed(events[-1]), signed(events[kept])])
    assert [(one.sequence, one.kind) for one in found] == [(kept + 1, BreakKind.MISSING)]
    assert f"knows row {len(events)}" in found[0].detail


@given(CHAINS, st.data())
def test_a_row_that_was_put_in_is_named(events: list[AuditEvent], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(events) - 1))
    before = events[place]
    forged = row(Head(before.sequence, before.row_hash), ["x"] * 7, outbox_id=99)
    put_in = [*events[: place + 1], forged, *events[place + 1 :]]
    found = read(put_in, [signed(event) for event in events])
    if place == len(events) - 1:
        assert found == []  # rightly chained at the end: its missing outbox entry is what betrays it
    else:
        assert (found[0].sequence, found[0].kind) in {
            (place + 2, BreakKind.INSERTED),
            (place + 2, BreakKind.CHANGED),
            (place + 2, BreakKind.NOT_AS_SIGNED),
        }


@given(CHAINS, st.data())
def test_rows_that_changed_places_are_found_at_the_first_of_them(events: list[AuditEvent], data: st.DataObject) -> None:
    if len(events) < 2:
        return
    one = data.draw(st.integers(0, len(events) - 2))
    other = data.draw(st.integers(one + 1, len(events) - 1))
    moved = [*events]
    moved[one], moved[other] = moved[other], moved[one]
    assert read(moved)[0].sequence == one + 1
    renumbered = [*events]
    renumbered[one] = events[other]._replace(sequence=one + 1)
    renumbered[other] = events[one]._replace(sequence=other + 1)
    first = read(renumbered)[0]
    assert (first.sequence, first.kind) == (one + 1, BreakKind.CHANGED)


def test_a_row_of_another_network_class_does_not_fit_in() -> None:
    mine, others = chain_of([["a"] * 7]), row(START, ["a"] * 7, network_class="mainnet")
    assert read([others])[0].kind is BreakKind.INSERTED
    disguised = others._replace(network_class="sandbox")
    assert read([disguised])[0] == Break(
        "sandbox",
        1,
        BreakKind.CHANGED,
        "its fields do not give its hash; it tells of a by a on a a",
    )
    assert read(mine) == []


def test_what_a_forged_row_says_is_told_short_and_without_secrets() -> None:
    forged = chain_of([["a"] * 7])[0]._replace(actor="api_key=canary-1234 " + "x" * 9000)
    [found] = read([forged])
    assert "canary" not in found.detail
    assert len(found.told()) < 500


def test_the_start_of_a_partial_reading_is_held_against_marks_too() -> None:
    events = chain_of([["a"] * 7, ["b"] * 7])
    found = read(events[1:], [signed(events[0])], Head(1, "f" * 64))
    assert [(one.sequence, one.kind) for one in found] == [(1, BreakKind.NOT_AS_SIGNED), (1, BreakKind.CHANGED)]


@given(st.lists(WORDS, min_size=2, max_size=5), st.lists(WORDS, min_size=2, max_size=5))
def test_fields_that_run_together_differently_never_hash_alike(some: list[str], others: list[str]) -> None:
    if some != others:
        assert hash_fields(some) != hash_fields(others)


def test_the_hash_is_what_is_written_down() -> None:
    """Fixed for ever: chains outlive releases."""
    event = AuditEvent(
        GENESIS,
        "mainnet",
        1,
        41,
        "2026-03-01T12:30:00.000000Z",
        "2026-03-01T12:30:00.734000Z",
        "grace",
        "approve",
        "movement_request",
        "0d9f5b2e-6e3f-4a53-9f0b-0c7a3f1f7a11",
        '{"reason": "gr\u00fcn"}',
        "",
    )
    assert hash_of(event) == "a648852c19d94a050e8d7fc90df6ca7711e7484551fd80527339cf3ced9d5fe6"


@given(CHAINS)
def test_an_export_can_be_recomputed_with_the_standard_library_alone(events: list[AuditEvent]) -> None:
    lines = [json.dumps(export_line(event)) for event in events]
    order = ["previous_hash", "network_class", "sequence", "outbox_id", "occurred_at", "promoted_at"]
    order += ["actor", "action", "subject_type", "subject_id", "details"]
    previous, number = "0" * 64, 0
    for line in lines:  # these lines stand in docs/audit.md
        row, number = json.loads(line), number + 1
        texts = ["qtg.audit-event.v1", *(str(row[name]) for name in order)]
        frames = b"".join(len(text.encode()).to_bytes(4, "big") + text.encode() for text in texts)
        assert row["row_hash"] == hashlib.sha256(frames).hexdigest(), f"row {row['sequence']} was changed"
        assert (row["previous_hash"], row["sequence"]) == (previous, number), f"a row before {row['sequence']} is gone"
        previous = row["row_hash"]


def test_what_is_wrong_is_told_in_a_line() -> None:
    gone = Break("mainnet", None, BreakKind.ENTRY_WITHOUT_EVENT, "entry 7 is marked and has no event")
    assert gone.told() == "mainnet outbox: outbox entry without event: entry 7 is marked and has no event"
    with pytest.raises(AttributeError):
        gone.sequence = 1  # type: ignore[misc]
