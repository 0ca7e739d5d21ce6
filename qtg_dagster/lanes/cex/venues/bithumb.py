"""Bithumb's wire: Upbit's with the time in each token, three words for a withdrawal, and beneficiaries in requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from qtg_dagster.lanes.cex.outcome import SubmitRules
from qtg_dagster.lanes.cex.upbit_like import UpbitLikeVenue, read_answer
from qtg_dagster.lanes.cex.venue import Access, Call, RowState

WITHDRAWAL_STATES: Mapping[str, RowState] = {
    "PROCESSING": RowState.PENDING,
    "DONE": RowState.DONE,
    **dict.fromkeys(("CANCELLED", "CANCELED"), RowState.CANCELLED),  # the documents spell it both ways
}
#: On their way in, or back, and no further without the customer or the venue's people.
_HELD = (
    *("REQUESTED_PENDING", "REQUESTED_PROCESSING", "REQUESTED_SYSTEM_REJECTED", "REQUESTED_ADMIN_REJECTED"),
    *("REFUNDING_PENDING", "REFUNDING_PROCESSING", "REFUNDING_SYSTEM_REJECTED", "REFUNDING_ADMIN_REJECTED"),
    *("REFUNDING_ACCEPTED", "REFUNDED_PROCESSING", "REFUNDED_CANCELLED"),
)
DEPOSIT_STATES: Mapping[str, RowState] = {
    **dict.fromkeys(("DEPOSIT_PROCESSING", "PROCESSING"), RowState.PENDING),
    **dict.fromkeys(("DEPOSIT_ACCEPTED", "ACCEPTED"), RowState.DONE),
    **dict.fromkeys(("DEPOSIT_CANCELLED", "CANCELLED", "CANCELED"), RowState.CANCELLED),
    **dict.fromkeys(_HELD, RowState.HELD),
    "REFUNDED_ACCEPTED": RowState.FAILED,
}
ACCESS_CODES: Mapping[str, Access] = {
    "invalid_access_key": Access.WRONG_KEY,
    **dict.fromkeys(("jwt_verification", "invalid_query_payload"), Access.WRONG_SIGNATURE),
    "expired_jwt": Access.CLOCK,
    "NotAllowIP": Access.IP_NOT_ALLOWED,
    **dict.fromkeys(("out_of_scope", "blocked_member_id"), Access.NO_PERMISSION),
    "server_error": Access.MAINTENANCE,
}
#: A balance that does not suffice, and a token that is too old or not accepted, are not among them: nothing says that a
#: copy of a taken request is stopped by its nonce, or in which words, and that copy would be answered so.
REFUSALS = frozenset(
    {"invalid_access_key", "invalid_query_payload", "NotAllowIP", "out_of_scope"}
    | {"blocked_member_id", "travel_rule_consent_required"}
)


class BithumbVenue(UpbitLikeVenue):
    """A token is too old at some time that is not told, so no end of a request's life is known."""

    ccxt_id = "bithumb"
    payload_format = "bithumb.withdraws.coin.v1"
    endpoints = "V1"
    ids_of_one_coin = True
    takes_copies = True
    withdrawal_states = WITHDRAWAL_STATES
    deposit_states = DEPOSIT_STATES
    access_codes = ACCESS_CODES
    submit_cost = 1.0
    submit_rules = SubmitRules(read=read_answer, refusals=REFUSALS)

    def with_beneficiary(self, call: Call, beneficiary: Mapping[str, Any]) -> Call:
        """The receiver's fields beside the order's, none of which they can change. ccxt cannot sign blank ones."""
        told = {name: value for name, value in beneficiary.items() if value != ""}
        return replace(call, params={**told, **call.params})


VENUE = BithumbVenue()
