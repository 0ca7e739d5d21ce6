"""Upbit under the suites of all venues."""

from __future__ import annotations

from typing import Any

from tests.lanes.cex.venues.bench import DESTINATION, Bench, Lost

_UUID = "9f432943-54e0-40b7-825f-b6fec8b42b79"
_SAVED = {"coin": "ETH", "network": "ETH"}


def refusal(code: str) -> dict[str, Any]:
    return {"error": {"name": code, "message": "refused"}}


BENCH = Bench(
    wire="upbit",
    network="ETH",
    refusal=refusal,
    refusal_status=400,
    odd_status={"state": "EVAPORATED"},
    doubtful={
        "no id": (201, {"type": "withdraw", "state": "WAITING"}),
        "blank id": (201, {"type": "withdraw", "uuid": ""}),
        "id of null": (201, {"type": "withdraw", "uuid": None}),
        "id zero": (201, {"type": "withdraw", "uuid": "0"}),
        "a deposit": (201, {"type": "deposit", "uuid": _UUID}),
        "two ids": (201, {"type": "withdraw", "uuid": _UUID, "withdrawal_id": "200377211"}),
        "a list": (201, [{"type": "withdraw", "uuid": _UUID}]),
        "nonce used": (401, refusal("nonce_used")),
        "parameter": (400, refusal("validation_error")),
        "any parameter": (400, refusal("invalid_parameter")),
        "status for a name": (400, {"error": {"name": 400, "message": "Missing request parameter error."}}),
        "error of text": (400, {"error": "out of order"}),
        "not found": (404, refusal("not_found")),
        "too many": (429, refusal("too_many_requests")),
        "server": (500, refusal("server_error")),
        "id beside an error": (400, {**refusal("out_of_scope"), "uuid": _UUID}),
        "a listed error under 500": (500, refusal("withdraw_insufficient_balance")),
        "a listed error under 409": (409, refusal("out_of_scope")),
    },
    stand_in={
        "address_book": [
            {"name": "the desk", "address": DESTINATION, **_SAVED},
            {"name": "not proven", "address": "0x" + "cc" * 20, "verified": False, **_SAVED},
        ]
    },
    lost=Lost.HANDED_OVER,
    tells_rights=False,
    lists_unproven=False,
)
