"""Bithumb under the suites of all venues."""

from __future__ import annotations

from typing import Any

from tests.lanes.cex.venues.bench import DESTINATION, Bench, Lost

_ID = "200377211"
_SAVED = {"coin": "ETH", "network": "ETH"}


def refusal(code: str) -> dict[str, Any]:
    return {"error": {"name": code, "message": "refused"}}


BENCH = Bench(
    wire="bithumb",
    network="ETH",
    refusal=refusal,
    refusal_status=400,
    odd_status={"state": "EVAPORATED"},
    doubtful={
        "no id": (201, {"type": "withdraw", "state": "PROCESSING"}),
        "blank id": (200, {"type": "withdraw", "uuid": ""}),
        "id of null": (200, {"type": "withdraw", "uuid": None, "withdrawal_id": None}),
        "id zero": (200, {"type": "withdraw", "withdrawal_id": "0"}),
        "a deposit": (200, {"type": "deposit", "uuid": _ID}),
        "two ids": (200, {"type": "withdraw", "uuid": _ID, "withdrawal_id": "200377212"}),
        "a list": (200, [{"type": "withdraw", "uuid": _ID}]),
        "success of the first generation": (200, {"status": "0000"}),
        "refusal of the first generation": (200, {"status": "5600", "message": "try again later"}),
        "another generation's id": (200, {"status": "0000", "uuid": _ID}),
        "expired": (401, refusal("expired_jwt")),
        "balance": (400, refusal("withdraw_insufficient_balance")),
        "parameter": (400, refusal("invalid_parameter")),
        "a sentence for a name": (400, refusal("currency does not have a valid value")),
        "status for a name": (400, {"error": {"name": 400, "message": "Missing request parameter error."}}),
        "not found": (404, refusal("withdraw_not_found")),
        "not ready": (422, refusal("order_not_ready")),
        "server": (500, refusal("server_error")),
        "id beside an error": (400, {**refusal("out_of_scope"), "uuid": _ID}),
        "a listed error under 500": (500, refusal("out_of_scope")),
        "a listed error under 409": (409, refusal("travel_rule_consent_required")),
    },
    beneficiary={
        "exchange_name": "Binance",
        "receiver_type": "personal",
        "receiver_ko_name": "홍길동",
        "receiver_en_name": "Wilhelmina Quistgaard",
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
    undone="CANCELLED",
)
