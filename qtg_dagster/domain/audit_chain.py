"""The chain of audit events: what is hashed, byte for byte, and how a chain that was touched gives itself away.

A row's hash is the SHA-256, in hex, of these fields in this order, each as a frame: the length of its UTF-8 bytes in
four bytes, big-endian, then the bytes. Numbers are decimal text.

    "qtg.audit-event.v1", previous_hash, network_class, sequence, outbox_id, occurred_at, promoted_at, actor, action,
    subject_type, subject_id, details

`previous_hash` is the hash of the row before, 64 zeros for the first one. `details` is the text that PostgreSQL gives
for the stored jsonb. Times are UTC to the microsecond: `2026-03-01T12:30:00.000000Z`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from qtg_dagster.domain.redaction import redact_text

EVENT_FORMAT = "qtg.audit-event.v1"
#: What stands before the first row of every chain.
GENESIS = "0" * 64
_MOST_SAID = 300
_HEAD = len(EVENT_FORMAT).to_bytes(4, "big") + EVENT_FORMAT.encode()


class AuditEvent(NamedTuple):
    """One row of a chain, its fields in the order in which they are hashed; `row_hash` is what it claims to be."""

    previous_hash: str
    network_class: str
    sequence: int
    outbox_id: int
    occurred_at: str
    promoted_at: str
    actor: str
    action: str
    subject_type: str
    subject_id: str
    details: str
    row_hash: str


class Head(NamedTuple):
    """Where a chain has come to."""

    sequence: int
    row_hash: str


START = Head(0, GENESIS)


def hash_fields(fields: Iterable[str | int]) -> str:
    """The hash of a row's fields, `previous_hash` first and `details` last."""
    parts = [_HEAD]
    for field in fields:
        text = str(field).encode()
        parts += (len(text).to_bytes(4, "big"), text)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def hash_of(event: AuditEvent) -> str:
    """What the row's hash must be."""
    return hash_fields(event[:-1])


class BreakKind(StrEnum):
    """What is wrong with a row of the trail."""

    CHANGED = "changed"
    MISSING = "missing"
    INSERTED = "inserted"
    NOT_AS_SIGNED = "not as signed"
    ENTRY_WITHOUT_EVENT = "outbox entry without event"
    EVENT_WITHOUT_ENTRY = "event without outbox entry"
    ENTRY_DIFFERS = "event and outbox entry differ"


@dataclass(frozen=True, slots=True)
class Break:
    """Something wrong: in which chain, at which row, and what. `sequence` is None for an entry that never got a row."""

    network_class: str
    sequence: int | None
    kind: BreakKind
    detail: str

    def told(self) -> str:
        """One line for people."""
        where = "outbox" if self.sequence is None else f"sequence {self.sequence}"
        return f"{self.network_class} {where}: {self.kind}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A row that somebody knows from elsewhere: a signed checkpoint, or an earlier verification."""

    head: Head
    source: str


class ChainReader:
    """Reads one chain from the row after `start` in its order, in constant memory, and says what is wrong with it.

    Marks make it notice what the chain alone cannot show: a tail that was cut off, and rows that were all hashed anew.
    """

    def __init__(self, network_class: str, start: Head = START, marks: Sequence[Mark] = ()) -> None:
        self._network_class = network_class
        self.head = start
        self._proven = start.sequence
        self._marks = _by_sequence(mark for mark in marks if mark.head.sequence > start.sequence)
        self._start_marks = [mark for mark in marks if mark.head.sequence == start.sequence]

    def begin(self) -> list[Break]:
        """What marks say against the start itself."""
        return [self._contradiction(mark) for mark in self._start_marks if mark.head != self.head]

    def take(self, event: AuditEvent) -> list[Break]:
        """The next row; gives what is wrong with it or before it."""
        if event.network_class != self._network_class:
            return [self._broken(event.sequence, BreakKind.INSERTED, f"a row of {event.network_class}")]
        expected = self.head.sequence + 1
        if event.sequence < expected:
            detail = f"a row of this number stands where {expected} belongs"
            return [self._broken(event.sequence, BreakKind.INSERTED, detail)]
        found: list[Break] = []
        if event.sequence > expected:
            last = event.sequence - 1
            what = "this row is gone" if last == expected else f"rows {expected} to {last} are gone"
            found.append(self._broken(expected, BreakKind.MISSING, what))
        if hash_of(event) != event.row_hash:
            found.append(
                self._broken(event.sequence, BreakKind.CHANGED, f"its fields do not give its hash; {_of(event)}")
            )
        elif not found and event.previous_hash != self.head.row_hash:
            found.append(self._unlinked(event))
        self.head = Head(event.sequence, event.row_hash)
        for mark in self._marks.pop(event.sequence, ()):
            if mark.head != self.head:
                found.append(self._contradiction(mark))
            else:
                self._proven = event.sequence
        return found

    def end(self) -> list[Break]:
        """After the last row: what marks know beyond it."""
        beyond = [mark for known in self._marks.values() for mark in known if mark.head.sequence > self.head.sequence]
        if not beyond:
            return []
        furthest = max(beyond, key=lambda mark: mark.head.sequence)
        detail = f"the chain ends before it; {furthest.source} knows row {furthest.head.sequence}"
        return [self._broken(self.head.sequence + 1, BreakKind.MISSING, detail)]

    def _unlinked(self, event: AuditEvent) -> Break:
        """Both rows are whole in themselves and do not belong together: the earlier is not what the later followed."""
        if self.head == START:
            return self._broken(event.sequence, BreakKind.CHANGED, f"it does not begin a chain; {_of(event)}")
        detail = f"it is not the row that {event.sequence} was chained to"
        return self._broken(self.head.sequence, BreakKind.CHANGED, detail)

    def _contradiction(self, mark: Mark) -> Break:
        last = mark.head.sequence
        detail = f"{mark.source} knows another row here: of rows {self._proven + 1} to {last}, some were replaced"
        return self._broken(last, BreakKind.NOT_AS_SIGNED, detail)

    def _broken(self, sequence: int, kind: BreakKind, detail: str) -> Break:
        return Break(self._network_class, sequence, kind, detail)


def _of(event: AuditEvent) -> str:
    """What a row that cannot be trusted says, cut short and without what looks like a secret."""
    said = f"it tells of {event.action} by {event.actor} on {event.subject_type} {event.subject_id}"
    return redact_text(said)[:_MOST_SAID]


def _by_sequence(marks: Iterable[Mark]) -> dict[int, list[Mark]]:
    found: dict[int, list[Mark]] = {}
    for mark in marks:
        found.setdefault(mark.head.sequence, []).append(mark)
    return found


def export_line(event: AuditEvent) -> Mapping[str, str | int]:
    """The row as an export holds it: everything that is hashed, and the hash."""
    return event._asdict()
