"""Binance under the suites of all venues."""

from __future__ import annotations

from tests.lanes.cex.venues.bench import Bench

BENCH = Bench(
    wire="binance",
    network="ETH",
    refusal=lambda code: {"code": int(code), "msg": "refused"},
    odd_status={"status": 99},
    refusal_status=400,
    beneficiary={"isAddressOwner": 2, "bnfType": 0, "bnfName": "Wilhelmina Quistgaard", "isAttested": True},
    doubtful={
        "internal": (400, {"code": -1001, "msg": "internal error"}),
        "timeout": (400, {"code": -1007, "msg": "Timeout waiting for response"}),
        "duplicate": (400, {"code": -4999, "msg": "Duplicate withdrawOrderId"}),
        "travel rule": (200, {"trId": 123, "accpted": False, "info": "held"}),
        "id beside an error": (200, {"code": -1021, "msg": "late", "id": "w77"}),
        "no id": (200, {"id": ""}),
    },
)
