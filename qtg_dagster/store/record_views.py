"""What people and the schedule ask about venues' records. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.cex_transfers import FINAL_STATUSES, NOTHING_MOVED
from qtg_dagster.domain.record_days import Stretch
from qtg_dagster.store.cex_transfers import Place
from qtg_dagster.store.database import Transaction

_FINAL = ", ".join(f"'{status}'" for status in sorted(FINAL_STATUSES))
_UNMOVED = ", ".join(f"'{status}'" for status in sorted(NOTHING_MOVED))
#: Money that moved, or is about to, without a node of ours and without anybody who answers for it. One that came
#: up a moment ago may be ours: its node is about to say so.
UNMATCHED = (
    f"t.matched_node_id IS NULL AND t.acknowledged_at IS NULL AND t.status NOT IN ({_UNMOVED}) "
    "AND t.occurred_at < now() - interval '15 minutes'"
)
_ORDER = "ORDER BY t.occurred_at DESC, t.id DESC LIMIT :most"
_SHOWN = """t.id, t.venue_key, t.account, t.kind, t.row_key, t.coin, t.network, t.address, t.memo, t.client_id, t.tx_id,
    t.amount, t.fee, t.status, t.raw_status, t.occurred_at, t.first_seen_at, t.matched_request_id::text AS request_id,
    t.matched_node_key, t.matched_by, t.acknowledged_by, t.acknowledged_at, t.acknowledge_reason, t.disputed_status,
    t.disputed_raw_status, t.disputed_at, t.raw,
    (SELECT max(r.began_at) FROM qtg.cex_transfer_readings r
     WHERE (r.network_class, r.venue_key, r.account) = (t.network_class, t.venue_key, t.account) AND r.problem IS NULL
       AND (t.occurred_at AT TIME ZONE 'UTC')::date BETWEEN r.first_day AND r.last_day) AS last_seen_at"""
_COINS = text("""
    SELECT DISTINCT coin FROM qtg.cex_transfers
    WHERE network_class = :network_class AND venue_key = :venue_key AND account = :account
""")
_UNMATCHED_BY_DAY = text(f"""
    SELECT (t.occurred_at AT TIME ZONE 'UTC')::date AS day, count(*) AS transfers FROM qtg.cex_transfers t
    WHERE t.network_class = :network_class AND t.venue_key = :venue_key AND t.account = :account
      AND t.occurred_at >= :start AND t.occurred_at < :end AND {UNMATCHED}
    GROUP BY 1
""")  # noqa: S608 - our own constants
_UNMATCHED_BY_VENUE = text(f"""
    SELECT t.venue_key, t.account, count(*) AS transfers, count(*) FILTER (WHERE t.kind = 'withdrawal') AS withdrawals,
           max(t.occurred_at) AS newest, min(t.occurred_at) AS oldest
    FROM qtg.cex_transfers t WHERE t.network_class = :network_class AND {UNMATCHED}
    GROUP BY t.venue_key, t.account ORDER BY t.venue_key, t.account
""")  # noqa: S608 - our own constants
_INCOMPLETE_BY_VENUE = text("""
    SELECT venue_key, account, count(*) AS days, min(day) AS oldest, max(day) AS newest,
           (array_agg(problem ORDER BY day DESC))[1] AS problem, min(changed_at) AS since
    FROM qtg.cex_transfer_days WHERE network_class = :network_class AND day_state = 'INCOMPLETE'
    GROUP BY venue_key, account ORDER BY venue_key, account
""")
_EVENTS = text("""
    SELECT changes, before, after, actor, recorded_at FROM qtg.cex_transfer_events
    WHERE transfer_id = :id ORDER BY id
""")
_NOT_CLOSED = text("""
    SELECT d.venue_key, d.account, d.day, d.day_state, d.problem, d.transfers, d.open_transfers, d.changed_at
    FROM qtg.cex_transfer_days d
    WHERE d.network_class = :network_class AND d.day_state = ANY (CAST(:states AS text[]))
      AND (CAST(:venue_key AS text) IS NULL OR d.venue_key = :venue_key)
    ORDER BY d.day DESC, d.venue_key LIMIT :most
""")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which transfers are listed; None = any."""

    venue_key: str | None = None
    coin: str | None = None
    unmatched: bool = False
    disputed: bool = False
    open: bool = False
    before: datetime | None = None
    most: int = 50


@dataclass(frozen=True, slots=True)
class UnmatchedAt:
    """How many transfers of one account nobody answers for."""

    venue_key: str
    account: str
    transfers: int
    withdrawals: int
    oldest: datetime
    newest: datetime

    def told(self) -> str:
        """One line for people."""
        what = "1 transfer" if self.transfers == 1 else f"{self.transfers} transfers"
        return (
            f"{what}, {self.withdrawals} of them withdrawals, that no movement made, "
            f"from {self.oldest:%Y-%m-%d} to {self.newest:%Y-%m-%d}"
        )


@dataclass(frozen=True, slots=True)
class IncompleteAt:
    """How many days of one account could not be read whole."""

    venue_key: str
    account: str
    days: int
    oldest: date
    newest: date
    problem: str
    since: datetime

    def told(self) -> str:
        """One line for people."""
        what = "1 day" if self.days == 1 else f"{self.days} days"
        return f"{what} from {self.oldest} to {self.newest} could not be read whole, the newest for {self.problem}"


@dataclass(frozen=True, slots=True)
class DayShown:
    """A day that is not closed."""

    venue_key: str
    account: str
    day: date
    state: str
    problem: str | None
    transfers: int
    open_transfers: int
    changed_at: datetime


async def coins_on_record(transaction: Transaction, place: Place) -> frozenset[str]:
    """Coins that ever moved on the account."""
    return frozenset(row.coin for row in await transaction.execute(_COINS, place.bound))


async def count_unmatched(transaction: Transaction, place: Place, stretch: Stretch) -> dict[date, int]:
    """Transfers of these days that nobody answers for, by day."""
    bound = {**place.bound, "start": stretch.start, "end": stretch.end}
    return {row.day: row.transfers for row in await transaction.execute(_UNMATCHED_BY_DAY, bound)}


async def unmatched_by_venue(transaction: Transaction, network_class: str) -> list[UnmatchedAt]:
    """The accounts with transfers that nobody answers for."""
    rows = await transaction.execute(_UNMATCHED_BY_VENUE, {"network_class": network_class})
    return [
        UnmatchedAt(row.venue_key, row.account, row.transfers, row.withdrawals, row.oldest, row.newest) for row in rows
    ]


async def incomplete_by_venue(transaction: Transaction, network_class: str) -> list[IncompleteAt]:
    """The accounts with days that could not be read whole."""
    return [
        IncompleteAt(*row) for row in await transaction.execute(_INCOMPLETE_BY_VENUE, {"network_class": network_class})
    ]


async def list_transfers(transaction: Transaction, network_class: str, wanted: Wanted) -> Sequence[Any]:
    """Transfers on record, newest first, with when each was last seen by a whole reading."""
    tests = ["t.network_class = :network_class"]
    tests += ["t.venue_key = :venue_key"] if wanted.venue_key else []
    tests += ["t.coin = :coin"] if wanted.coin else []
    tests += [UNMATCHED] if wanted.unmatched else []
    tests += ["t.disputed_status IS NOT NULL"] if wanted.disputed else []
    tests += [f"t.status NOT IN ({_FINAL})"] if wanted.open else []
    tests += ["t.occurred_at < :before"] if wanted.before else []
    sql = f"SELECT {_SHOWN} FROM qtg.cex_transfers t WHERE {' AND '.join(tests)} {_ORDER}"  # noqa: S608 - see above
    bound = {"network_class": network_class, "venue_key": wanted.venue_key, "coin": wanted.coin, "most": wanted.most}
    rows = await transaction.execute(text(sql), bound | ({"before": wanted.before} if wanted.before else {}))
    return rows.all()


async def read_transfer(transaction: Transaction, network_class: str, number: int) -> Any | None:
    """One transfer by its number on our record."""
    sql = f"SELECT {_SHOWN} FROM qtg.cex_transfers t WHERE t.network_class = :network_class AND t.id = :id"  # noqa: S608
    return (await transaction.execute(text(sql), {"network_class": network_class, "id": number})).one_or_none()


async def read_events(transaction: Transaction, number: int) -> Sequence[Any]:
    """What happened to it, oldest first."""
    return (await transaction.execute(_EVENTS, {"id": number})).all()


async def list_days(
    transaction: Transaction, network_class: str, states: Sequence[str], *, venue_key: str | None = None, most: int = 50
) -> list[DayShown]:
    """Days in these states, newest first."""
    bound = {"network_class": network_class, "states": list(states), "venue_key": venue_key, "most": most}
    return [DayShown(*row) for row in await transaction.execute(_NOT_CLOSED, bound)]
