"""What the core offers to any dialect, tried with a made-up wire: places in paths, statuses, words for refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange import venue as venues
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Dialect, Endpoint, Role, known_wires, load_dialect
from qtg_dagster.sandbox.exchange.server import serving
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest


class ToyParameters(Parameters):
    def missing(self, name: str) -> Refusal:
        return Refusal("missing", name)

    def malformed(self, name: str) -> Refusal:
        return Refusal("malformed", name, 422)


class ToyDialect(Dialect):
    content_type = "application/toy+json"
    order_id_name = "id"

    def endpoints(self) -> Sequence[Endpoint]:
        path, public = "/v2/accounts/{account}/orders", Access.PUBLIC
        return (
            Endpoint("POST", path, self._echo, Role.WITHDRAW, public, status=201),
            Endpoint("GET", path, self._decline, Role.WITHDRAWALS, public, also=(Role.DEPOSITS,)),
        )

    def read(self, request: VenueRequest) -> ToyParameters:
        return ToyParameters(json.loads(request.body or "{}"))

    def authenticate(self, request: VenueRequest) -> ToyParameters:
        raise NotImplementedError

    def decline(self, declined: Declined) -> Refusal:
        return Refusal(declined.reason, declined.facts.get("step", ""), 409)

    def error_body(self, refusal: Refusal) -> Any:
        return {"no": refusal.code, "why": refusal.message}

    def success_body(self, result: Any) -> Any:
        return {"yes": result}

    @staticmethod
    def _echo(parameters: ToyParameters) -> dict[str, Any]:
        return {"at": parameters.place["account"], "id": parameters.required("id"), "n": parameters.whole("n")}

    @staticmethod
    def _decline(_: ToyParameters) -> None:
        raise Declined(Reason.OFF_STEP, step="0.1")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "answer"),
    [
        ("POST", "/v2/accounts/abc/orders", {"id": "1", "n": "7"}, 201, {"yes": {"at": "abc", "id": "1", "n": 7}}),
        ("POST", "/v2/accounts/abc/orders", {"id": "1"}, 201, {"yes": {"at": "abc", "id": "1", "n": None}}),
        ("POST", "/v2/accounts/abc/orders", {}, 400, {"no": "missing", "why": "id"}),
        ("POST", "/v2/accounts/abc/orders", {"id": 1}, 422, {"no": "malformed", "why": "id"}),
        ("POST", "/v2/accounts/abc/orders", {"id": "1", "n": "-7"}, 422, {"no": "malformed", "why": "n"}),
        ("GET", "/v2/accounts/abc/orders", None, 409, {"no": "off_step", "why": "0.1"}),
        ("GET", "/v2/accounts/a/b/orders", None, 409, {"no": "no_such_endpoint", "why": ""}),
        ("DELETE", "/v2/accounts/abc/orders", None, 409, {"no": "no_such_endpoint", "why": ""}),
    ],
)
async def test_a_wire_is_routed_and_worded_by_its_dialect(
    make_config: Callable[..., ExchangeConfig],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    status: int,
    answer: dict[str, Any],
) -> None:
    monkeypatch.setattr(venues, "load_dialect", lambda _: ToyDialect)
    async with serving(make_config()) as running, httpx.AsyncClient(trust_env=False) as http:
        reply = await http.request(method, f"{running.address}/venue_a{path}", json=body)
        (asked,) = running.exchange.requests.rows(venue="venue_a", endpoint=None)
    assert (reply.status_code, reply.json()) == (status, answer)
    assert reply.headers["content-type"] == "application/toy+json"
    assert asked["order_id"] == ("1" if body and body.get("id") == "1" else None)


def test_a_wire_without_a_dialect_is_refused_with_those_there_are() -> None:
    assert {"binance", "kraken", "okx"} <= set(known_wires())
    for wire in ("nonsense", "../binance", ""):
        with pytest.raises(ConfigurationError, match="binance"):
            load_dialect(wire)
