"""What a person has to look at when no further look of ours will settle a withdrawal. Pure."""

from __future__ import annotations

from datetime import datetime

from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.venue import Identity, Repeats


def look_at(withdrawal: Withdrawal, since: datetime, until: datetime | None) -> str:
    """Where to look, for what, from when until when, and what to do with either finding."""
    account, order = withdrawal.account, withdrawal.order
    to = order.address if order.memo is None else f"{order.address} with memo {order.memo}"
    saved = "" if order.saved_as is None else f" (saved there as {order.saved_as!r})"
    end = "now, as no end of the request's life is known" if until is None else _time(until)
    return (
        f"Look at the withdrawals of account {account.entry.account} at {account.key} ({account.entry.wire}) for "
        f"{order.amount} {order.coin} over {order.network} to {to}{saved}, asked for from {_time(since)} to {end}. "
        f"{_by_id(withdrawal)}If it is there and in no other movement, adopt it by the venue's id; "
        "if it is surely not, and nothing arrived at the destination, say so, and only then try again"
    )


def _by_id(withdrawal: Withdrawal) -> str:
    venue, client_id = withdrawal.account.venue, withdrawal.order.client_id
    if venue.identity is Identity.ON_ROWS:
        return f"It carries our id {client_id}, unless the venue does not show what we gave it. "
    if venue.identity.is_shown:
        return f"It carries our id {client_id}. "
    if venue.identity is Identity.SENT_ONLY:
        again = ", which the venue takes once" if venue.repeats is Repeats.IDEMPOTENT else ""
        return f"The venue was given our id {client_id}{again}, and does not show it: its support can look it up. "
    if not venue.rows_show_destination:
        rest = "where it went is on its own pages, or in its transaction on the chain"
        return f"The venue takes no id of ours, and what it tells us has no destination: {rest}. "
    return "The venue takes no id of ours, so amount, destination and time are all there is to tell it by. "


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
