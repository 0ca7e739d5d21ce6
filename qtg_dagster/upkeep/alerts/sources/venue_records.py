"""Venues' records: money that moved without us, ends that changed, and days that cannot be read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.domain.cex_transfers import TransferStatus
from qtg_dagster.store.alerts import read_clock
from qtg_dagster.store.record_views import (
    IncompleteAt,
    UnmatchedAt,
    Wanted,
    incomplete_by_venue,
    list_transfers,
    unmatched_by_venue,
)
from qtg_dagster.upkeep.alerts.looking import MOST, Look, Source

#: Days that could not be read are tried again by themselves for so long before people hear of them.
_PATIENCE = timedelta(days=1)
_ASSET = "cex_transfers"
_SHOWN = 5
KINDS = frozenset({AlertKind.UNMATCHED_TRANSFERS, AlertKind.DISPUTED_TRANSFER, AlertKind.INCOMPLETE_RECORD})


async def find(look: Look) -> list[Condition]:
    """One alert an account for transfers without a movement and for days, one a transfer for ends that changed."""
    async with look.database.transaction() as tx:
        now = await read_clock(tx)
        unmatched = await unmatched_by_venue(tx, look.network_class)
        newest = {
            each.venue_key: await list_transfers(
                tx, look.network_class, Wanted(venue_key=each.venue_key, unmatched=True, most=_SHOWN)
            )
            for each in unmatched
        }
        disputed = await list_transfers(tx, look.network_class, Wanted(disputed=True, most=MOST))
        incomplete = await incomplete_by_venue(tx, look.network_class)
    return [
        *(_unmatched(each, newest[each.venue_key]) for each in unmatched),
        *(_disputed(each) for each in disputed),
        *(_incomplete(each) for each in incomplete if now - each.since > _PATIENCE),
    ]


def _unmatched(one: UnmatchedAt, newest: Any) -> Condition:
    severity = Severity.CRITICAL if one.withdrawals else Severity.WARNING
    evidence = {"in all": one.told()}
    evidence |= {f"{row.kind} {row.id}": told(row) for row in newest}
    return Condition(
        AlertKind.UNMATCHED_TRANSFERS,
        f"{one.venue_key} {one.account}",
        severity,
        f"{one.transfers} transfers on the record of {one.venue_key} were made by no movement of ours",
        evidence,
        ("acknowledge",),
        (f"qtg record list --unmatched --venue {one.venue_key}",),
        _ASSET,
        f"{one.transfers} {one.newest.isoformat()}",
    )


def _disputed(row: Any) -> Condition:
    is_final = TransferStatus(row.disputed_status).is_final
    return Condition(
        AlertKind.DISPUTED_TRANSFER,
        str(row.id),
        Severity.CRITICAL if is_final else Severity.WARNING,
        f"{row.venue_key} shows {row.kind} {row.row_key} as {row.disputed_status}, and has shown it as {row.status}",
        {
            "transfer": told(row),
            "first": f"{row.status} ({row.raw_status})",
            "now": f"{row.disputed_status} ({row.disputed_raw_status})",
            "since": f"{row.disputed_at:%Y-%m-%d %H:%M:%S} UTC",
            "movement": row.request_id or "none of ours",
        },
        ("settle",),
        (f"qtg record show {row.id}",),
        _ASSET,
    )


def _incomplete(one: IncompleteAt) -> Condition:
    return Condition(
        AlertKind.INCOMPLETE_RECORD,
        f"{one.venue_key} {one.account}",
        Severity.WARNING,
        f"the record of {one.venue_key} cannot be read whole",
        {"days": one.told(), "since": f"{one.since:%Y-%m-%d %H:%M:%S} UTC"},
        (),
        (f"qtg record days --incomplete --venue {one.venue_key}",),
        _ASSET,
    )


def told(row: Any) -> str:
    """A transfer in one line."""
    to = f" {'to' if row.kind == 'withdrawal' else 'at'} {row.address}" if row.address else ""
    return f"{row.amount.normalize():f} {row.coin}{to}, {row.status}, {row.occurred_at:%Y-%m-%d %H:%M:%S} UTC"


SOURCE = Source("venues' records", KINDS, find)
