"""The tester's side door: order faults, set conditions, read the books. Loopback and bearer token only."""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound, QtgError
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.sandbox.exchange.conditions import Conditions
from qtg_dagster.sandbox.exchange.dialect import HISTORIES, Role
from qtg_dagster.sandbox.exchange.exchange import Exchange
from qtg_dagster.sandbox.exchange.faults import Fault, status_number
from qtg_dagster.sandbox.exchange.strangers import arrive, go_on
from qtg_dagster.sandbox.exchange.venue import Rollback, Venue
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

Handler = Callable[[Request], Awaitable[Any]]
_STATUS_OF: dict[type[QtgError], int] = {NotFound: 404, Conflict: 409, InvalidInput: 422}


class MoreRows(Frozen):
    """Rows to add to a history, as movements of others on the account."""

    count: int = Field(ge=1, le=50_000)
    coin: str | None = None
    newest_ms: int | None = Field(default=None, description="null = now")
    spacing_ms: int = Field(default=0, ge=0)
    status: str | None = Field(default=None, description="null = withdrawals are called off, deposits credited")


class ControlApi:
    """Handlers under `/_control`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def routes(self) -> list[Route]:
        """All routes, each guarded."""
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/health", self._health),
            ("GET", "/moves", self._moves),
            ("GET", "/balances", self._balances),
            ("GET", "/withdrawals", self._withdrawals),
            ("GET", "/deposits", self._deposits),
            ("GET", "/requests", self._requests),
            ("GET", "/faults", self._waiting_faults),
            ("POST", "/faults", self._order_fault),
            ("DELETE", "/faults", self._clear_faults),
            ("GET", "/conditions/{venue}", self._conditions),
            ("PATCH", "/conditions/{venue}", self._set_conditions),
            ("PUT", "/shown/{venue}/{row}", self._show_instead),
            ("PUT", "/shown_status/{venue}/{history}/{row}", self._show_status),
            ("POST", "/rows/{venue}/{history}", self._add_rows),
            ("PUT", "/rows/{venue}/{history}/{row}", self._go_on),
            ("POST", "/reject/{venue}/{row}", self._reject),
            ("POST", "/pause_payouts", self._pause),
            ("POST", "/resume_payouts", self._resume),
        ]
        return [Route("/_control" + path, self._guarded(handler), methods=[method]) for method, path, handler in table]

    def _guarded(self, handler: Handler) -> Callable[[Request], Awaitable[JSONResponse]]:
        async def answer(request: Request) -> JSONResponse:
            if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
                return JSONResponse({"error": "loopback only"}, 403)
            expected = f"Bearer {self._exchange.config.control_token.get_secret_value()}"
            if not hmac.compare_digest(request.headers.get("authorization", "").encode(), expected.encode()):
                return JSONResponse({"error": "the bearer token is missing or wrong"}, 401)
            try:
                return JSONResponse(await handler(request))
            except (ValidationError, json.JSONDecodeError) as error:
                return JSONResponse({"error": str(error)}, 422)
            except QtgError as error:
                return JSONResponse({"error": str(error)}, _STATUS_OF.get(type(error), 400))

        return answer

    def _venue(self, key: str) -> Venue:
        if key not in self._exchange.venues:
            raise NotFound(f"no venue {key}; there are {', '.join(self._exchange.venues)}")
        return self._exchange.venues[key]

    def _asked_venue(self, request: Request) -> Venue:
        return self._venue(request.query_params.get("venue", ""))

    async def _health(self, _: Request) -> dict[str, Any]:
        return {
            "venues": list(self._exchange.venues),
            "paused": [k for k, d in self._exchange.desks.items() if d.paused],
        }

    async def _moves(self, request: Request) -> list[dict[str, Any]]:
        asked = request.query_params
        after = asked.get("after", "0")
        if not after.isdecimal():
            raise InvalidInput("after", f"{after!r} is not a sequence number", "Give the last seq you have.")
        return self._exchange.books.moves(venue=asked.get("venue"), after=int(after))

    async def _balances(self, _: Request) -> dict[str, Any]:
        return {
            key: {coin: _texts(self._exchange.books.balance(key, coin)) for coin in venue.config.coins}
            for key, venue in self._exchange.venues.items()
        }

    async def _withdrawals(self, request: Request) -> list[dict[str, Any]]:
        return [dict(row) for row in self._asked_venue(request).desk.rows()]

    async def _deposits(self, request: Request) -> list[dict[str, Any]]:
        venue = self._asked_venue(request)
        rows = self._exchange.ledger.rows("SELECT * FROM deposits WHERE venue = ? ORDER BY seq DESC", (venue.key,))
        return [dict(row) for row in rows]

    async def _requests(self, request: Request) -> list[dict[str, Any]]:
        asked = request.query_params
        return self._exchange.requests.rows(venue=asked.get("venue"), endpoint=asked.get("endpoint"))

    async def _waiting_faults(self, _: Request) -> list[dict[str, Any]]:
        waiting = self._exchange.faults.waiting()
        return [{"id": number, **fault.model_dump(mode="json")} for number, fault in waiting.items()]

    async def _order_fault(self, request: Request) -> dict[str, int]:
        fault = Fault.model_validate_json(await request.body())
        if fault.venue != "*":
            self._venue(fault.venue)
        return {"id": self._exchange.faults.add(fault)}

    async def _clear_faults(self, _: Request) -> dict[str, Any]:
        self._exchange.faults.clear()
        return {}

    async def _conditions(self, request: Request) -> dict[str, Any]:
        return self._venue(request.path_params["venue"]).conditions.model_dump(mode="json")

    async def _set_conditions(self, request: Request) -> dict[str, Any]:
        venue = self._venue(request.path_params["venue"])
        venue.conditions = Conditions.model_validate(venue.conditions.model_dump() | await request.json())
        return venue.conditions.model_dump(mode="json")

    async def _show_instead(self, request: Request) -> dict[str, Any]:
        venue, row = self._venue(request.path_params["venue"]), request.path_params["row"]
        fields = await request.json()
        if fields:
            venue.shown_instead[row] = fields
        else:
            venue.shown_instead.pop(row, None)
        return {}

    async def _show_status(self, request: Request) -> dict[str, Any]:
        venue, row, role = self._venue(request.path_params["venue"]), request.path_params["row"], _history(request)
        name = (await request.json()).get("status")
        venue.rollbacks = [item for item in venue.rollbacks if (item.history, item.row) != (role, row)]
        if name is not None:
            venue.rollbacks.append(Rollback(role, row, _status(role, str(name))))
        return {}

    async def _add_rows(self, request: Request) -> dict[str, Any]:
        venue, role = self._venue(request.path_params["venue"]), _history(request)
        asked = MoreRows.model_validate_json(await request.body())
        if asked.coin is not None and asked.coin not in venue.config.coins:
            raise InvalidInput("coin", f"{venue.key} does not list {asked.coin}", "Give one of its coins.")
        status = None if asked.status is None else _status(role, asked.status)
        return {"ids": arrive(venue, role, **asked.model_dump(exclude={"status"}), status=status)}

    async def _go_on(self, request: Request) -> dict[str, Any]:
        venue, role = self._venue(request.path_params["venue"]), _history(request)
        go_on(venue, role, request.path_params["row"], _status(role, str((await request.json()).get("status"))))
        return {}

    async def _reject(self, request: Request) -> dict[str, Any]:
        venue, asked = self._venue(request.path_params["venue"]), await request.json()
        try:
            status = WithdrawalStatus(asked["status"])
        except (KeyError, ValueError):
            raise InvalidInput("status", "not a withdrawal status", "Give 1, 3 or 5.") from None
        venue.desk.give_back(request.path_params["row"], status, str(asked.get("info", "")), now_ms=venue.now_ms())
        return {}

    async def _pause(self, request: Request) -> dict[str, Any]:
        return self._set_paused(request.query_params.get("venue"), paused=True)

    async def _resume(self, request: Request) -> dict[str, Any]:
        return self._set_paused(request.query_params.get("venue"), paused=False)

    def _set_paused(self, venue: str | None, *, paused: bool) -> dict[str, Any]:
        if venue is not None:
            self._venue(venue)
        if not self._exchange.desks:
            raise Conflict("nothing is paid out here: the configuration names no chain")
        for key, desk in self._exchange.desks.items():
            if venue in (None, key):
                desk.pause(paused)
        return {}


def _status(history: Role, name: str) -> int:
    try:
        return status_number(history, name)
    except ValueError as error:
        raise InvalidInput("status", str(error), "Give one of these.") from None


def _history(request: Request) -> Role:
    try:
        role = Role(request.path_params["history"])
    except ValueError:
        role = Role.OTHER
    if role not in HISTORIES:
        raise InvalidInput("history", "not a history", "Give withdrawals or deposits.")
    return role


def _texts(balance: Any) -> dict[str, str]:
    return {name: getattr(balance, name).to_text() for name in ("free", "withdrawing", "frozen")}
