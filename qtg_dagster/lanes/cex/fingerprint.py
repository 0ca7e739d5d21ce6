"""Telling a withdrawal of ours by what it is, where rows do not carry our id. Pure; doubt is never a match."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from qtg_dagster.lanes.cex.matching import differing_terms
from qtg_dagster.lanes.cex.venue import Order, RowState, Venue, WithdrawalRow

EARLIEST = timedelta(seconds=5)  # clocks differ, and some venues cut times to seconds
LATEST = timedelta(seconds=60)


class Fit(StrEnum):
    """What a venue's rows say about one withdrawal request."""

    ABSENT = "ABSENT"
    ONE = "ONE"
    SEVERAL = "SEVERAL"
    UNPROVEN = "UNPROVEN"  # one row contradicts nothing, and does not show enough to be ours for certain
    UNDONE = "UNDONE"  # the one row that fits was given back: whether it is ours decides whether money moved


@dataclass(frozen=True, slots=True)
class Trace:
    """What a request of ours would look like on the record.

    `seen_before` are rows that were there before it was sent: none of them can be it, whatever it looks like.
    """

    order: Order
    prepared_at: datetime
    last_moment: datetime | None  # until when the request can be taken; None = no end is known
    seen_before: frozenset[str]

    def could_be(self, row: WithdrawalRow, venue: Venue) -> bool:
        """Whether nothing that the row shows speaks against it."""
        if row.withdrawal_id in self.seen_before or differing_terms(self.order, row, venue):
            return False
        if row.client_id is not None and row.client_id != self.order.client_id:
            return False
        if row.applied_at is None:
            return True
        too_late = self.last_moment is not None and row.applied_at > self.last_moment + LATEST
        return row.applied_at >= self.prepared_at - EARLIEST and not too_late

    def shows_enough(self, row: WithdrawalRow) -> bool:
        """Whether the row names time, network and destination: amounts and coins alone are met by strangers' too."""
        memo_shown = self.order.memo is None or row.memo is not None or None not in (row.saved_as, self.order.saved_as)
        return None not in (row.applied_at, row.network, row.address) and memo_shown


def fitting(trace: Trace, rows: Iterable[WithdrawalRow], venue: Venue) -> tuple[Fit, tuple[WithdrawalRow, ...]]:
    """The verdict, and the rows that could be ours."""
    found = tuple({row.withdrawal_id: row for row in rows if trace.could_be(row, venue)}.values())
    if len(found) != 1:
        return (Fit.SEVERAL if found else Fit.ABSENT), found
    (row,) = found
    if not trace.shows_enough(row):
        return Fit.UNPROVEN, found
    if row.state in (RowState.FAILED, RowState.CANCELLED):
        return Fit.UNDONE, found
    return Fit.ONE, found
