"""Upbit's wire: no id of ours, no destination on any row, and a nonce that is good once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from qtg_dagster.lanes.cex.outcome import SubmitRules
from qtg_dagster.lanes.cex.upbit_like import UpbitLikeVenue, read_answer
from qtg_dagster.lanes.cex.venue import Access, Call, Order, RowState

WITHDRAWAL_STATES: Mapping[str, RowState] = {
    # the last three are words of an older version of the documents
    **dict.fromkeys(("WAITING", "PROCESSING", "SUBMITTING", "SUBMITTED", "ALMOST_ACCEPTED"), RowState.PENDING),
    "ACCEPTED": RowState.PENDING,  # older, too: agreed to, and not yet sent
    "DONE": RowState.DONE,
    **dict.fromkeys(("FAILED", "REJECTED"), RowState.FAILED),
    **dict.fromkeys(("CANCELLED", "CANCELED"), RowState.CANCELLED),
}
DEPOSIT_STATES: Mapping[str, RowState] = {
    "PROCESSING": RowState.PENDING,
    "ACCEPTED": RowState.DONE,
    **dict.fromkeys(("TRAVEL_RULE_SUSPECTED", "REFUNDING"), RowState.HELD),
    **dict.fromkeys(("REJECTED", "REFUNDED"), RowState.FAILED),
    "CANCELLED": RowState.CANCELLED,
}
ACCESS_CODES: Mapping[str, Access] = {
    **dict.fromkeys(("invalid_access_key", "expired_access_key"), Access.WRONG_KEY),
    **dict.fromkeys(("jwt_verification", "invalid_query_payload"), Access.WRONG_SIGNATURE),
    **dict.fromkeys(("no_authorization_ip", "no_authorization_i_p"), Access.IP_NOT_ALLOWED),
    **dict.fromkeys(("out_of_scope", "open_api_withdraw_locked"), Access.NO_PERMISSION),
    "server_error": Access.MAINTENANCE,
}
#: The key, the signature and what the customer registered are looked at before anything is taken. A balance that does
#: not suffice is among them because a copy of a taken request is stopped earlier, by its nonce.
REFUSALS = frozenset(
    {"invalid_access_key", "expired_access_key", "jwt_verification", "invalid_query_payload", "no_authorization_token"}
    | {"no_authorization_ip", "no_authorization_i_p", "out_of_scope", "open_api_withdraw_locked"}
    | {"withdraw_address_not_registered", "withdraw_address_not_registerd", "withdraw_insufficient_balance"}
    | {"insufficient_funds_ask", "insufficient_funds_bid"}
)


class UpbitVenue(UpbitLikeVenue):
    """Tokens carry no time, so no end of a request's life is known."""

    ccxt_id = "upbit"
    payload_format = "upbit.withdraws.coin.v1"
    endpoints = ""
    withdrawal_states = WITHDRAWAL_STATES
    deposit_states = DEPOSIT_STATES
    access_codes = ACCESS_CODES
    submit_cost = 0.67
    submit_rules = SubmitRules(read=read_answer, refusals=REFUSALS, duplicate_codes=frozenset({"nonce_used"}))

    def submit(self, order: Order, signed_at: datetime) -> Call:
        call = super().submit(order, signed_at)
        # On the chain: what is asked for inside the venue goes nowhere when the address is not a member's.
        return replace(call, params={**call.params, "transaction_type": "default"})


VENUE = UpbitVenue()
