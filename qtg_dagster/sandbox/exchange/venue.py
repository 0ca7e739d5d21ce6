"""One venue's endpoints: admitted requests in, Binance's JSON out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from qtg_dagster.sandbox.exchange.accounts import Accounts
from qtg_dagster.sandbox.exchange.books import Books
from qtg_dagster.sandbox.exchange.conditions import Conditions
from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.deposits import deposit_row
from qtg_dagster.sandbox.exchange.history import deposit_history, withdrawal_history
from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest, authenticate
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalDesk, withdrawal_row

Execution = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How one endpoint is answered."""

    answer: Callable[[Parameters], Any]
    signed: bool = True
    needs_withdraw_right: bool = False


@dataclass
class Venue:
    """One venue: its desks, its present conditions, and what its histories are told to show instead."""

    key: str
    config: VenueConfig
    ledger: Ledger
    books: Books
    conditions: Conditions = field(default_factory=Conditions)
    shown_instead: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.desk = WithdrawalDesk(self.key, self.config, self.ledger, self.books)
        accounts = Accounts(self.key, self.config, self.books)
        wallet, spot = "/sapi/v1", "/api/v3"
        self._endpoints: dict[tuple[str, str], Endpoint] = {
            ("GET", f"{spot}/ping"): Endpoint(lambda _: {}, signed=False),
            ("GET", f"{spot}/time"): Endpoint(lambda _: {"serverTime": self.now_ms()}, signed=False),
            ("GET", f"{spot}/exchangeInfo"): Endpoint(lambda _: accounts.exchange_info(self.now_ms()), signed=False),
            ("GET", f"{wallet}/system/status"): Endpoint(self._system_status, signed=False),
            ("GET", f"{spot}/account"): Endpoint(lambda p: accounts.account(p, self.now_ms(), self.conditions)),
            ("GET", f"{wallet}/account/status"): Endpoint(lambda _: {"data": self.conditions.account_status}),
            ("GET", f"{wallet}/account/apiRestrictions"): Endpoint(lambda _: accounts.restrictions(self.conditions)),
            ("POST", "/sapi/v3/asset/getUserAsset"): Endpoint(accounts.user_assets),
            ("GET", f"{wallet}/capital/config/getall"): Endpoint(lambda _: accounts.all_coins(self.conditions)),
            ("GET", f"{wallet}/capital/deposit/address"): Endpoint(accounts.deposit_address),
            ("GET", f"{wallet}/capital/deposit/hisrec"): Endpoint(self._deposits),
            ("GET", f"{wallet}/capital/withdraw/history"): Endpoint(self._withdrawals),
            ("POST", f"{wallet}/capital/withdraw/apply"): Endpoint(self._apply, needs_withdraw_right=True),
        }

    def now_ms(self) -> int:
        """The venue's clock, skew included."""
        return time.time_ns() // 1_000_000 + self.conditions.clock_skew_ms

    def admit(self, request: VenueRequest) -> Execution:
        """Check route, key, signature and clock; returns what would execute the request, or raises `Refusal`."""
        endpoint = self._endpoints.get((request.method, request.endpoint))
        if endpoint is None:
            raise Refusal(-1000, "No such endpoint here.", 404)
        if not endpoint.signed:
            parameters = request.parameters()
            return lambda: endpoint.answer(parameters)
        if self.conditions.maintenance:
            raise Refusal(-1016, "This service is no longer available.", 503)
        parameters = authenticate(
            request,
            api_key=self.config.api_key,
            api_secret=self.config.api_secret.get_secret_value(),
            now_ms=self.now_ms(),
        )
        allowed = self.conditions.key_withdraws if endpoint.needs_withdraw_right else self.conditions.key_reads
        if not allowed:
            raise Refusal(-2015, "Invalid API-key, IP, or permissions for action.", 401)
        return lambda: endpoint.answer(parameters)

    def _system_status(self, _: Parameters) -> dict[str, Any]:
        if self.conditions.maintenance:
            return {"status": 1, "msg": "system_maintenance"}
        return {"status": 0, "msg": "normal"}

    def _apply(self, parameters: Parameters) -> dict[str, Any]:
        asked = self.desk.check(parameters, disabled=self.conditions.withdraw_disabled)
        if self.conditions.travel_rule:
            raise Refusal(-4104, "This withdrawal needs the travel rule questionnaire.")
        return {"id": self.desk.accept(asked, now_ms=self.now_ms())}

    def _withdrawals(self, parameters: Parameters) -> list[dict[str, Any]]:
        lag = int(self.conditions.lag_history_seconds * 1000)
        rows = withdrawal_history(self.ledger, self.key, parameters, now_ms=self.now_ms(), lag_ms=lag)
        if self._plays_empty():
            return []
        return [withdrawal_row(row) | self.shown_instead.get(row["id"], {}) for row in rows]

    def _deposits(self, parameters: Parameters) -> list[dict[str, Any]]:
        lag = int(self.conditions.lag_history_seconds * 1000)
        rows = deposit_history(self.ledger, self.key, parameters, now_ms=self.now_ms(), lag_ms=lag)
        if self._plays_empty():
            return []
        return [deposit_row(row, self.config) | self.shown_instead.get(row["id"], {}) for row in rows]

    def _plays_empty(self) -> bool:
        left = self.conditions.empty_history_times
        if left:
            self.conditions = self.conditions.model_copy(update={"empty_history_times": left - 1})
        return left > 0
