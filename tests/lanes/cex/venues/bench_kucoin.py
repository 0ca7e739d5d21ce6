"""KuCoin under the suites of all venues."""

from __future__ import annotations

from typing import Any

from tests.lanes.cex.venues.bench import Bench

_PASSPHRASE = "passphrase-of-the-desk"


def _error(code: str, **beside: Any) -> dict[str, Any]:
    return {"code": code, "msg": "refused", **beside}


_TAKEN = {"withdrawalId": "670deec84d64da0007d7c946"}

BENCH = Bench(
    wire="kucoin",
    network="eth",
    refusal=_error,
    odd_status={"status": "EVAPORATED"},
    doubtful={
        "no data": (200, {"code": "200000"}),
        "data of null": (200, {"code": "200000", "data": None}),
        "data without an id": (200, {"code": "200000", "data": {}}),
        "id of null": (200, {"code": "200000", "data": {"withdrawalId": None}}),
        "blank id": (200, {"code": "200000", "data": {"withdrawalId": ""}}),
        "id zero": (200, {"code": "200000", "data": {"withdrawalId": 0}}),
        "a list": (200, {"code": "200000", "data": [_TAKEN]}),
        "no code": (200, {"data": _TAKEN}),
        "success beside words": (200, {"code": "200000", "msg": "Unsuccessful! Exceeded the limit", "data": _TAKEN}),
        "success without data beside words": (200, {"code": "200000", "msg": "Unsuccessful! Exceeded the limit"}),
        "id beside an error": (200, _error("400100", data=_TAKEN)),
        "id beside a refusal": (200, _error("400007", data=_TAKEN)),
        "network timeout": (200, {"code": "408000", "msg": "Network timeout, please try again later"}),
        "clock": (401, _error("400002")),
        "no balance is left": (200, _error("230003")),
        "the account has none": (200, _error("260100")),
        "parameter": (200, {"code": "400100", "msg": "account.available.amount"}),
        "closed": (200, {"code": "260210", "msg": "withdraw.disabled"}),
        "too many": (429, {"code": "429000", "msg": "Too many requests"}),
        "internal": (200, {"code": "500000", "msg": "Internal Server Error"}),
        "offline": (503, {"code": "503000", "msg": "Service is temporarily unavailable."}),
        "duplicate in words": (200, {"code": "400100", "msg": "duplicate request"}),
        "a listed code under 500": (500, _error("400005")),
        "a listed code under 409": (409, _error("400003")),
    },
    stand_in={"api_passphrase": _PASSPHRASE},
    entry={"api_passphrase": {"env": "DESK_PASSPHRASE"}},
    passphrase=_PASSPHRASE,
    undone="FAILED",
    deposits_have_ids=False,
)
