"""Gate under the suites of all venues."""

from __future__ import annotations

from typing import Any

from tests.lanes.cex.venues.bench import Bench


def _error(label: str, **beside: Any) -> dict[str, Any]:
    return {"label": label, "message": "refused", **beside}


_TAKEN = {"id": "w64413318", "currency": "eth", "chain": "eth", "amount": "1.5"}

BENCH = Bench(
    wire="gate",
    network="ETH",
    refusal=_error,
    odd_status={"status": "EVAPORATED"},
    refusal_status=400,
    doubtful={
        "no id": (200, {**_TAKEN, "id": ""}),
        "id of null": (200, {**_TAKEN, "id": None}),
        "id zero": (200, {**_TAKEN, "id": 0}),
        "a list": (200, [_TAKEN]),
        "id beside an error": (200, _error("BALANCE_NOT_ENOUGH", id="w64413318")),
        "id beside a refusal": (400, _error("INVALID_KEY", id="w64413318")),
        "not succeeded": (200, {**_TAKEN, "succeeded": False}),
        "internal": (400, _error("INTERNAL")),
        "server error": (200, _error("SERVER_ERROR")),
        "busy": (400, _error("TOO_BUSY")),
        "too many": (429, _error("TOO_MANY_REQUESTS")),
        "too fast": (400, _error("TOO_FAST")),
        "expired": (401, _error("REQUEST_EXPIRED")),
        "no balance is left": (400, _error("BALANCE_NOT_ENOUGH")),
        "over the limit": (400, _error("WITHDRAWAL_OVER_LIMIT")),
        "duplicate": (400, _error("DUPLICATE_REQUEST")),
        "exists": (400, _error("ORDER_EXISTS")),
        "duplicate in words": (400, {"label": "INVALID_PARAM_VALUE", "detail": "withdraw_order_id already exists"}),
        "parameter": (400, _error("INVALID_PARAM_VALUE")),
        "a listed label under 500": (500, _error("INVALID_SIGNATURE")),
        "a listed label under 409": (409, _error("INVALID_KEY")),
    },
)
