"""Bithumb's wire under the suites of all dialects. What ccxt raises has the message of a refusal, not its name."""

from __future__ import annotations

from typing import ClassVar

from tests.sandbox.exchange.dialects.driver import API_KEY
from tests.sandbox.exchange.dialects.upbit_like import SAVED, UpbitLikeDriver

_SECRET = "secret-of-the-desk"
_NOT_SAVED = "not among those registered"


class BithumbDriver(UpbitLikeDriver):
    wire = "bithumb"
    endpoints = "V1"
    down = "under maintenance"
    settings: ClassVar = {"apiKey": API_KEY, "secret": _SECRET}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, "access key is wrong"),
        "secret": ({"secret": "another-secret"}, "could not be verified"),
        "clock": ({"milliseconds": lambda: 1_600_000_000_000}, "has expired"),
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
        "bad_address": _NOT_SAVED,
        "strange_address": _NOT_SAVED,
        "no_amount": "amount is missing",
        "malformed_amount": "amount does not have a valid value",
        "off_step": "too many decimal places",
        "too_little": "below the minimum",
        "nothing": "below the minimum",
        "too_much": "limit of withdrawals is exceeded",
        "insufficient": "limit of withdrawals is exceeded",
    }
    no_right = "lacks the permission"
    in_maintenance = "under maintenance"
    closed = "are suspended"
    withdrawal_words: ClassVar = {
        "email_sent": "PROCESSING",
        "cancelled": "CANCELLED",
        "awaiting_approval": "PROCESSING",
        "rejected": "CANCELLED",
        "processing": "PROCESSING",
        "failure": "CANCELLED",
        "completed": "DONE",
    }
    deposit_words: ClassVar = {
        "pending": "DEPOSIT_PROCESSING",
        "success": "DEPOSIT_ACCEPTED",
        "rejected": "REFUNDED_ACCEPTED",
        "credited_locked": "DEPOSIT_PROCESSING",
        "wrong": "DEPOSIT_CANCELLED",
        "awaiting_user": "REQUESTED_PENDING",
    }


DRIVER = BithumbDriver()
