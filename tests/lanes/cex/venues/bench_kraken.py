"""Kraken under the suites of all venues."""

from __future__ import annotations

import base64

from tests.lanes.cex.venues.bench import DESTINATION, Bench

_SAVED = {"coin": "ETH", "network": "Ethereum"}

BENCH = Bench(
    wire="kraken",
    network="Ethereum",
    refusal=lambda code: {"error": [code]},
    odd_status={"status": "Evaporated"},
    doubtful={
        "nothing": (200, {"error": [], "result": {}}),
        "no result": (200, {"error": []}),
        "blank id": (200, {"error": [], "result": {"refid": ""}}),
        "id of null": (200, {"error": [], "result": {"refid": None}}),
        "no list of errors": (200, {"result": {"refid": "AFAKE00-000000-000000"}}),
        "nonce": (200, {"error": ["EAPI:Invalid nonce"]}),
        "unavailable": (200, {"error": ["EService:Unavailable"]}),
        "busy": (200, {"error": ["EService:Busy"]}),
        "internal": (200, {"error": ["EGeneral:Internal error"]}),
        "rate": (200, {"error": ["EAPI:Rate limit exceeded"]}),
        "amount": (200, {"error": ["EFunding:Invalid amount"]}),
        "two errors": (200, {"error": ["EFunding:Unknown asset", "EService:Unavailable"]}),
        "id beside an error": (
            200,
            {"error": ["EFunding:Unknown asset"], "result": {"refid": "AFAKE00-000000-000000"}},
        ),
        "a listed error under 502": (502, {"error": ["EFunding:Insufficient funds"]}),
    },
    stand_in={
        "address_book": [
            {"name": "the desk", "address": DESTINATION, **_SAVED},
            {"name": "not proven", "address": "0x" + "cc" * 20, "verified": False, **_SAVED},
        ]
    },
    secret=base64.b64encode(b"secret-of-the-desk").decode(),
)
