"""What was read of a venue's record, and how far each of its days is known.

One row a reading says for all transfers in it when they were seen again; of days, only what changed is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import text

from qtg_dagster.domain.cex_transfers import FINAL_STATUSES, SeenTransfer
from qtg_dagster.domain.record_days import DayState, Stretch, day_of
from qtg_dagster.store.cex_transfers import Place
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.statements import as_json

_FINAL = ", ".join(f"'{status}'" for status in sorted(FINAL_STATUSES))
_READING = text("""
    INSERT INTO qtg.cex_transfer_readings (network_class, venue_key, account, purpose, first_day, last_day, run_id,
                                           began_at, problem, transfers, new_transfers, changed_transfers)
    VALUES (:network_class, :venue_key, :account, :purpose, :first_day, :last_day, :run_id,
            :began_at, :problem, :transfers, :new, :changed)
""")
_COUNTS = text(f"""
    SELECT (occurred_at AT TIME ZONE 'UTC')::date AS day, count(*) AS transfers,
           count(*) FILTER (WHERE status NOT IN ({_FINAL})) AS open
    FROM qtg.cex_transfers
    WHERE network_class = :network_class AND venue_key = :venue_key AND account = :account
      AND occurred_at >= :start AND occurred_at < :end
    GROUP BY 1
""")  # noqa: S608 - our own constants
_KEYS = text("""
    SELECT kind, row_key, occurred_at FROM qtg.cex_transfers
    WHERE network_class = :network_class AND venue_key = :venue_key AND account = :account
      AND occurred_at >= :start AND occurred_at < :end
""")
_DAYS = text("""
    INSERT INTO qtg.cex_transfer_days AS d (network_class, venue_key, account, day, day_state, problem, transfers,
                                            open_transfers, closed_at)
    SELECT :network_class, :venue_key, :account, day, day_state, problem, transfers, open_transfers,
           CASE WHEN day_state = 'CLOSED' THEN now() END
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
         AS r (day date, day_state text, problem text, transfers int, open_transfers int)
    ON CONFLICT (network_class, venue_key, account, day) DO UPDATE
    SET day_state = excluded.day_state, problem = excluded.problem, transfers = excluded.transfers,
        open_transfers = excluded.open_transfers, changed_at = now(),
        closed_at = CASE WHEN excluded.day_state = 'CLOSED' THEN coalesce(d.closed_at, now()) END
    WHERE (d.day_state, d.problem, d.transfers, d.open_transfers)
          IS DISTINCT FROM (excluded.day_state, excluded.problem, excluded.transfers, excluded.open_transfers)
""")
_STATES = text("""
    SELECT day, day_state FROM qtg.cex_transfer_days
    WHERE network_class = :network_class AND venue_key = :venue_key AND account = :account
      AND day BETWEEN :first_day AND :last_day
""")


@dataclass(frozen=True, slots=True)
class DayCount:
    """Transfers of one day on our record."""

    transfers: int = 0
    open: int = 0


@dataclass(frozen=True, slots=True)
class DayRow:
    """How far a day is known."""

    day: date
    state: DayState
    problem: str | None
    count: DayCount


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """One stretch that was asked for."""

    purpose: str
    stretch: Stretch
    run_id: str | None
    began_at: datetime
    problem: str | None
    transfers: int
    new: int
    changed: int


async def write_reading(transaction: Transaction, place: Place, reading: ReadingRow) -> None:
    """Say that these days were asked for: for each transfer in them, when it was seen again."""
    await transaction.execute(
        _READING,
        {
            **place.bound,
            "purpose": reading.purpose,
            "first_day": reading.stretch.first,
            "last_day": reading.stretch.last,
            "run_id": reading.run_id,
            "began_at": reading.began_at,
            "problem": reading.problem,
            "transfers": reading.transfers,
            "new": reading.new,
            "changed": reading.changed,
        },
    )


async def write_days(transaction: Transaction, place: Place, days: Sequence[DayRow]) -> None:
    """Write how far days are known, those alone about which something changed."""
    rows = [
        {
            "day": one.day.isoformat(),
            "day_state": one.state.value,
            "problem": one.problem,
            "transfers": one.count.transfers,
            "open_transfers": one.count.open,
        }
        for one in days
    ]
    await transaction.execute(_DAYS, {**place.bound, "rows": as_json(rows)})


async def count_days(transaction: Transaction, place: Place, stretch: Stretch) -> dict[date, DayCount]:
    """How many transfers of each day stand on our record."""
    bound = {**place.bound, "start": stretch.start, "end": stretch.end}
    return {row.day: DayCount(row.transfers, row.open) for row in await transaction.execute(_COUNTS, bound)}


async def read_day_states(transaction: Transaction, place: Place, stretch: Stretch) -> Mapping[date, DayState]:
    """How far each day was known before."""
    bound = {**place.bound, "first_day": stretch.first, "last_day": stretch.last}
    return {row.day: DayState(row.day_state) for row in await transaction.execute(_STATES, bound)}


async def missing_transfers(
    transaction: Transaction, place: Place, stretch: Stretch, seen: Sequence[SeenTransfer]
) -> dict[date, int]:
    """Transfers of these days that stand on our record and were not shown, by day."""
    shown = {(each.kind.value, each.row_key) for each in seen}
    missing: dict[date, int] = {}
    for row in await transaction.execute(_KEYS, {**place.bound, "start": stretch.start, "end": stretch.end}):
        if (row.kind, row.row_key) not in shown:
            day = day_of(row.occurred_at)
            missing[day] = missing.get(day, 0) + 1
    return missing
