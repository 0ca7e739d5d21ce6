"""What a node keeps of a withdrawal that the venue gave an id to. Pure."""

from __future__ import annotations

from typing import Any

from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.venue import Identity

BOUND = "withdrawal_bound"
#: The venue's id beside the venue: two venues may give the same one.
VENUE_WITHDRAWAL = "venue_withdrawal"


def withdrawal_refs(withdrawal: Withdrawal, withdrawal_id: str) -> dict[str, Any]:
    """What later nodes need to follow this withdrawal."""
    return {
        "exchange_withdrawal_id": withdrawal_id,
        VENUE_WITHDRAWAL: f"{withdrawal.account.key}:{withdrawal_id}",
        "withdrawal_client_id": withdrawal.order.client_id,
        "withdrawal_amount": withdrawal.order.amount,
    }


def bound_refs(withdrawal: Withdrawal, withdrawal_id: str) -> dict[str, Any]:
    """The id that the venue gave to this very request, where its rows may not say that they are ours."""
    if withdrawal.account.venue.identity is Identity.SEARCHABLE:
        return {}
    return {BOUND: {"client_id": withdrawal.order.client_id, "withdrawal_id": withdrawal_id}}
