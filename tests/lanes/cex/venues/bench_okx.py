"""OKX under the suites of all venues."""

from __future__ import annotations

from tests.lanes.cex.venues.bench import Bench

_PASSPHRASE = "passphrase-of-the-desk"

BENCH = Bench(
    wire="okx",
    network="ERC20",
    refusal=lambda code: {"code": code, "msg": "refused", "data": []},
    odd_status={"state": "99"},
    lost_deposit=None,
    doubtful={
        "no data": (200, {"code": "0", "msg": "", "data": []}),
        "data without an id": (200, {"code": "0", "msg": "", "data": [{"wdId": ""}]}),
        "id zero": (200, {"code": "0", "msg": "", "data": [{"wdId": "0"}]}),
        "two ids": (200, {"code": "0", "msg": "", "data": [{"wdId": "1"}, {"wdId": "2"}]}),
        "partly done": (200, {"code": "2", "msg": "", "data": [{"wdId": "7"}]}),
        "id beside an error": (200, {"code": "58350", "msg": "?", "data": [{"wdId": "7"}]}),
        "no code": (200, {"data": [{"wdId": ""}]}),
        "busy": (200, {"code": "50001", "msg": "Service temporarily unavailable", "data": []}),
        "busy 503": (503, {"code": "50001", "msg": "Service temporarily unavailable", "data": []}),
        "timed out": (200, {"code": "50004", "msg": "Endpoint request timeout", "data": []}),
        "too many systems": (200, {"code": "50026", "msg": "System error", "data": []}),
        "duplicate": (400, {"code": "51000", "msg": "Parameter clientId error: duplicate.", "data": []}),
        "parameter": (400, {"code": "51000", "msg": "Parameter amt error.", "data": []}),
        "clock": (401, {"code": "50102", "msg": "Timestamp request expired.", "data": []}),
        "a listed code under 500": (500, {"code": "58350", "msg": "Insufficient balance.", "data": []}),
        "a listed code under 409": (409, {"code": "50111", "msg": "Invalid OK-ACCESS-KEY.", "data": []}),
    },
    beneficiary={"walletType": "exchange", "rcvrFirstName": "Wilhelmina", "rcvrLastName": "Quistgaard"},
    stand_in={"api_passphrase": _PASSPHRASE},
    entry={"api_passphrase": {"env": "DESK_PASSPHRASE"}},
    passphrase=_PASSPHRASE,
)
