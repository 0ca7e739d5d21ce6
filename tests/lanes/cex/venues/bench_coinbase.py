"""Coinbase under the suites of all venues."""

from __future__ import annotations

from tests.lanes.cex.venues.bench import Bench
from tests.sandbox.exchange.dialects.drive_coinbase import SECRET


def refusal(code: str, message: str = "refused") -> dict[str, object]:
    return {"errors": [{"id": code, "message": message}]}


_ID = "a1794ecf-5693-45fa-80cf-ef731748ed82"

BENCH = Bench(
    wire="coinbase",
    network="ethereum",
    refusal=refusal,
    refusal_status=400,
    odd_status={"status": "evaporated"},
    doubtful={
        "nothing": (201, {"data": {}}),
        "no data": (201, {"pagination": None}),
        "id of null": (201, {"data": {"id": None, "status": "pending"}}),
        "blank id": (201, {"data": {"id": " "}}),
        "a list": (201, {"data": [{"id": _ID}]}),
        "id beside an error": (400, {**refusal("validation_error"), "data": {"id": _ID}}),
        "several errors": (400, {"errors": [{"id": "validation_error"}, {"id": "internal_server_error"}]}),
        "no errors": (400, {"errors": []}),
        "internal": (500, refusal("internal_server_error")),
        "internal under 200": (200, refusal("internal_server_error")),
        "unavailable": (503, refusal("service_unavailable")),
        "not found": (404, refusal("not_found")),
        "token": (401, refusal("authentication_error", "request timestamp expired")),
        "token of text": (401, {"error": "invalid_token", "error_description": "The access token is invalid"}),
        "exhausted": (429, refusal("resource_exhausted")),
        "used before": (400, refusal("validation_error", "duplicate idem")),
        "a listed code under 502": (502, refusal("validation_error")),
    },
    beneficiary={"beneficiary_name": "Wilhelmina Quistgaard", "beneficiary_wallet_type": "self_hosted"},
    secret=SECRET,
    tells_fee=False,
    tells_withdrawing=False,
)
