"""Bitget under the suites of all venues."""

from __future__ import annotations

from typing import Any

from tests.lanes.cex.venues.bench import Bench

_PASSPHRASE = "passphrase-of-the-desk"


def _said(code: str, words: str = "", data: Any = None) -> dict[str, Any]:
    return {"code": code, "msg": words, "requestTime": 1774785600000, "data": data}


BENCH = Bench(
    wire="bitget",
    network="ERC20",
    refusal=lambda code: _said(code, "refused"),
    odd_status={"status": "evaporated"},
    refusal_status=400,
    doubtful={
        "no data": (200, _said("00000", "success")),
        "data without an id": (200, _said("00000", "success", {"clientOid": "c1"})),
        "blank id": (200, _said("00000", "success", {"orderId": ""})),
        "id zero": (200, _said("00000", "success", {"orderId": "0"})),
        "a list of ids": (200, _said("00000", "success", [{"orderId": "7"}])),
        "id beside an error": (200, _said("43111", "?", {"orderId": "7"})),
        "no code": (200, {"msg": "success", "data": {"orderId": ""}}),
        "abnormal": (400, _said("40015", "System is abnormal, please try again later")),
        "timed out": (400, _said("40010", "Request timed out")),
        "service error": (400, _said("40725", "service return an error")),
        "too often": (429, _said("429", "Too many requests")),
        "withdrawn too often": (400, _said("13001", "Withdraw is too frequent")),
        "over the limit of the day": (400, _said("43113", "The daily limit is exceeded in a single transaction")),
        "upgrade": (503, _said("40200", "Server upgrade, please try again later")),
        "no position": (400, _said("40757", "Not enough position is available.")),
        "duplicate": (400, _said("43118", "clientOrderId duplicate")),
        "duplicate by its words": (400, _said("99999", "Duplicate clientOid")),
        "clock": (400, _said("40008", "Request timestamp expired")),
        "old clock": (400, _said("40004", "Request timestamp expired")),
        "a copy that finds too little left": (400, _said("43012", "Insufficient balance")),
        "a listed code under 500": (500, _said("43111", "param error")),
        "a listed code under 409": (409, _said("40037", "Apikey does not exist")),
    },
    stand_in={"api_passphrase": _PASSPHRASE},
    entry={"api_passphrase": {"env": "DESK_PASSPHRASE"}},
    passphrase=_PASSPHRASE,
    beneficiary={
        "memberCode": "korbit",
        "identityType": "user",
        "firstName": "Wilhelmina",
        "lastName": "Quistgaard",
    },
)
