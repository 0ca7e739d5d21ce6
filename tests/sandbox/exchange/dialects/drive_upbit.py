"""Upbit's wire under the suites of all dialects."""

from __future__ import annotations

from typing import ClassVar

from tests.sandbox.exchange.dialects.driver import API_KEY
from tests.sandbox.exchange.dialects.upbit_like import SAVED, UpbitLikeDriver

_SECRET = "secret-of-the-desk"


class UpbitDriver(UpbitLikeDriver):
    wire = "upbit"
    endpoints = ""
    down = "server_error"
    copy_outcome = "refused nonce_used"
    settings: ClassVar = {"apiKey": API_KEY, "secret": _SECRET}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, "invalid_access_key"),
        "secret": ({"secret": "another-secret"}, "jwt_verification"),
        "nonce": ({"uuid": lambda: ""}, "jwt_verification"),
    }
    venue_fields: ClassVar = {
        "api_key": API_KEY,
        "api_secret": _SECRET,
        "address_book": [
            {"name": "desk ETH", "coin": "ETH", **SAVED},
            {"name": "desk USDC", "coin": "USDC", **SAVED},
            {"name": "unproven", "coin": "ETH", "network": "ETH", "address": "0x" + "ce" * 20, "verified": False},
        ],
    }
    refusals: ClassVar = {
        "unknown_coin": "currency does not have a valid value",
        "unknown_network": "net_type does not have a valid value",
        "bad_address": "withdraw_address_not_registered",
        "strange_address": "withdraw_address_not_registered",
        "no_amount": "amount is missing",
        "malformed_amount": "amount does not have a valid value",
        "off_step": "withdraw_decimal_place",
        "too_little": "withdraw_amount_too_small",
        "nothing": "withdraw_amount_too_small",
        "too_much": "withdraw_amount_too_large",
        "insufficient": "withdraw_insufficient_balance",
    }
    no_right = "out_of_scope"
    in_maintenance = "server_error"
    closed = "withdraw_suspended"
    withdrawal_words: ClassVar = {
        "email_sent": "WAITING",
        "cancelled": "CANCELLED",
        "awaiting_approval": "WAITING",
        "rejected": "REJECTED",
        "processing": "PROCESSING",
        "failure": "FAILED",
        "completed": "DONE",
    }
    deposit_words: ClassVar = {
        "pending": "PROCESSING",
        "success": "ACCEPTED",
        "rejected": "REJECTED",
        "credited_locked": "PROCESSING",
        "wrong": "REFUNDING",
        "awaiting_user": "TRAVEL_RULE_SUSPECTED",
    }


DRIVER = UpbitDriver()
