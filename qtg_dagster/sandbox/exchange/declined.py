"""Why a venue does not do as it is asked, before any wire puts that into its own words."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Every ground on which the venues here decline; a dialect has words for each."""

    UNKNOWN_COIN = "unknown_coin"
    UNKNOWN_NETWORK = "unknown_network"
    NETWORK_CLOSED = "network_closed"
    BAD_ADDRESS = "bad_address"
    TAG_NOT_TAKEN = "tag_not_taken"
    ADDRESS_NOT_SAVED = "address_not_saved"
    MALFORMED_AMOUNT = "malformed_amount"
    OFF_STEP = "off_step"
    BELOW_MINIMUM = "below_minimum"
    ABOVE_MAXIMUM = "above_maximum"
    NOT_ABOVE_FEE = "not_above_fee"
    INSUFFICIENT = "insufficient"
    REPEATED_ORDER_ID = "repeated_order_id"
    TRAVEL_RULE = "travel_rule"
    MAINTENANCE = "maintenance"
    NO_SUCH_ENDPOINT = "no_such_endpoint"
    KEY_MAY_NOT = "key_may_not"


class Declined(Exception):
    """The venue declines; `facts` are what its message may name, such as the step that an amount has to keep."""

    def __init__(self, reason: Reason, **facts: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.facts = facts
