"""Bybit under the suites of all venues."""

from __future__ import annotations

from tests.lanes.cex.venues.bench import DESTINATION, Bench

_SAVED = {"coin": "ETH", "network": "ETH"}

BENCH = Bench(
    wire="bybit",
    network="ETH",
    refusal=lambda code: {"retCode": int(code), "retMsg": "refused", "result": {}, "retExtInfo": {}, "time": 1},
    odd_status={"status": "Evaporated"},
    doubtful={
        "nothing": (200, {"retCode": 0, "retMsg": "success", "result": {}}),
        "no result": (200, {"retCode": 0, "retMsg": "success"}),
        "id of null": (200, {"retCode": 0, "retMsg": "success", "result": {"id": None}}),
        "id zero": (200, {"retCode": 0, "retMsg": "success", "result": {"id": "0"}}),
        "no code": (200, {"retMsg": "success", "result": {"id": "77"}}),
        "id beside an error": (200, {"retCode": 131093, "retMsg": "?", "result": {"id": "77"}}),
        "repeated": (200, {"retCode": 131082, "retMsg": "Do not repeat the request", "result": {}}),
        "duplicate": (200, {"retCode": 10014, "retMsg": "Request is duplicate", "result": {}}),
        "balance": (200, {"retCode": 131001, "retMsg": "openapi svc error", "result": {}}),
        "delayed": (200, {"retCode": 131085, "retMsg": "the delayed withdrawal is triggered", "result": {}}),
        "internal": (200, {"retCode": 131003, "retMsg": "Internal error", "result": {}}),
        "in progress": (200, {"retCode": 131201, "retMsg": "fetch data fail", "result": {}}),
        "system": (200, {"retCode": 10016, "retMsg": "System error. Please try again later.", "result": {}}),
        "clock": (200, {"retCode": 10002, "retMsg": "check your server timestamp", "result": {}}),
        "too soon": (200, {"retCode": 10006, "retMsg": "Too many visits!", "result": {}}),
        "a listed code under 500": (500, {"retCode": 131093, "retMsg": "not in the whitelist", "result": {}}),
    },
    beneficiary={"vaspEntityId": "bybit-nl", "beneficiaryName": "Wilhelmina Quistgaard"},
    stand_in={
        "address_book": [
            {"name": "the desk", "address": DESTINATION, **_SAVED},
            {"name": "not proven", "address": "0x" + "cc" * 20, "verified": False, **_SAVED},
        ]
    },
)
