"""A withdrawal as its prepared action keeps it, and back: only what was prepared, and is still meant, is ever sent."""

from __future__ import annotations

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import PreparedAction, payload_hash
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.venue import Order
from qtg_dagster.lanes.cex.withdrawal_destination import as_prepared


def payload_of(withdrawal: Withdrawal) -> str:
    """The canonical text of what is asked for."""
    order = withdrawal.order
    body = {
        "venue": withdrawal.account.key,
        "coin": order.coin,
        "network": order.network,
        "address": order.address,
        "amount": order.amount,
        "client_id": order.client_id,
        "memo": order.memo,
    }
    extra = {"saved_as": order.saved_as, "max_fee": order.max_fee, "beneficiary": order.beneficiary}
    return canonical_json(body | {name: value for name, value in extra.items() if value is not None})


def sendable_order(withdrawal: Withdrawal, prepared: PreparedAction) -> Order:
    """The prepared order; raises `Conflict` unless it is whole and what this node would withdraw."""
    if payload_hash(prepared.payload) != prepared.payload_hash:
        raise Conflict("the prepared withdrawal does not match its hash: it was changed after it was prepared")
    meant = as_prepared(withdrawal, prepared)
    if prepared.payload != payload_of(meant):
        raise Conflict("the prepared withdrawal is not what this node withdraws now")
    return meant.order
