"""One venue: its books, its present conditions, what its histories are told to show, and the dialect it speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from qtg_dagster.sandbox.exchange import histories
from qtg_dagster.sandbox.exchange.books import Balance, Books, true_ms
from qtg_dagster.sandbox.exchange.conditions import Conditions
from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Dialect, Endpoint, Role, load_dialect
from qtg_dagster.sandbox.exchange.histories import Page, Row
from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.wire import Answer, Parameters, Refusal, VenueRequest
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalDesk, WithdrawalOrder

Execution = Callable[[], Answer]
Found = tuple[Endpoint, dict[str, str]]
AsIf = Callable[[Row, int | None], Row]


@dataclass(frozen=True, slots=True)
class Rollback:
    """Rows of a history shown in another status than the true one: one row or all, that status or one step back."""

    history: Role
    row: str | None
    status: int | None


@dataclass
class Venue:
    """One venue's state, and the same few questions to it for every dialect."""

    key: str
    config: VenueConfig
    ledger: Ledger
    books: Books
    conditions: Conditions = field(default_factory=Conditions)
    shown_instead: dict[str, dict[str, Any]] = field(default_factory=dict)
    rollbacks: list[Rollback] = field(default_factory=list)

    def __post_init__(self) -> None:
        dialect = load_dialect(self.config.wire)
        self.desk = WithdrawalDesk(self.key, self.config, self.ledger, self.books, repeats=dialect.repeats)
        self.dialect: Dialect = dialect(self)
        self._endpoints = tuple(self.dialect.endpoints())

    def now_ms(self) -> int:
        """The venue's clock, skew included."""
        return true_ms() + self.conditions.clock_skew_ms

    def find(self, method: str, path: str) -> Found | None:
        """The endpoint of a request, and what stands in the path for the names in it."""
        for endpoint in self._endpoints:
            if endpoint.method == method and (match := endpoint.pattern.fullmatch(path)) is not None:
                return endpoint, match.groupdict()
        return None

    def admit(self, request: VenueRequest, found: Found | None) -> Execution:
        """Check route, key, signature and clock; returns what would execute the request, or raises `Refusal`."""
        if found is None:
            raise self.dialect.decline(Declined(Reason.NO_SUCH_ENDPOINT))
        endpoint, place = found
        if endpoint.access is Access.PUBLIC:
            return self._execution(endpoint, self.dialect.read(request).at(place))
        if self.conditions.maintenance:
            raise self.dialect.decline(Declined(Reason.MAINTENANCE))
        parameters = self.dialect.authenticate(request).at(place)
        if not self.conditions.ip_allowed:
            raise self.dialect.not_from_here()
        withdraws = endpoint.access is Access.WITHDRAW
        if not (self.conditions.key_withdraws if withdraws else self.conditions.key_reads):
            raise self.dialect.decline(Declined(Reason.KEY_MAY_NOT))
        return self._execution(endpoint, parameters)

    def _execution(self, endpoint: Endpoint, parameters: Parameters) -> Execution:
        def execute() -> Answer:
            try:
                return endpoint.status, self.dialect.success_body(endpoint.answer(parameters))
            except Declined as declined:
                raise self.dialect.decline(declined) from None

        return execute

    def refused(self, refusal: Refusal) -> Answer:
        """A refusal as it is sent."""
        return refusal.status, self.dialect.error_body(refusal)

    def withdraw(self, order: WithdrawalOrder, *, told: bool = False) -> str:
        """Check, hold and record a withdrawal; its id, or raises `Declined`.

        `told` says that the request tells the beneficiary, as it has to under the travel rule.
        """
        asked = self.desk.check(order, disabled=self.conditions.withdraw_disabled)
        if self.conditions.travel_rule and not told:
            raise Declined(Reason.TRAVEL_RULE)
        return self.desk.accept(asked, now_ms=self.now_ms(), key=self.dialect.withdrawal_id(), told=told)

    def open_for_withdrawals(self, coin: str, network: str) -> bool:
        return f"{coin}/{network}" not in self.conditions.withdraw_disabled

    def open_for_deposits(self, coin: str, network: str) -> bool:
        return f"{coin}/{network}" not in self.conditions.deposit_disabled

    def balance(self, coin: str) -> Balance:
        """The customer's holding of a coin, as old as the lag of balances makes it."""
        lag = self.conditions.lag_ms(Role.BALANCES)
        if not lag:
            return self.books.balance(self.key, coin)
        return self.books.balance_before(self.key, coin, true_ms() - lag)

    def withdrawals(self, page: Page) -> list[Row]:
        """A page of the withdrawals as the venue tells of them now."""
        until = self.now_ms() - self.conditions.lag_ms(Role.WITHDRAWALS)
        rows = histories.withdrawals(self.ledger, self.key, page, until_ms=until)
        return self._as_told(Role.WITHDRAWALS, rows, histories.withdrawal_as_if)

    def deposits(self, page: Page) -> list[Row]:
        """A page of the deposits as the venue tells of them now."""
        until = self.now_ms() - self.conditions.lag_ms(Role.DEPOSITS)
        rows = histories.deposits(self.ledger, self.key, page, until_ms=until)
        return self._as_told(Role.DEPOSITS, rows, histories.deposit_as_if)

    def _as_told(self, history: Role, rows: list[Row], as_if: AsIf) -> list[Row]:
        left = self.conditions.empty_history_times
        if left:
            self.conditions = self.conditions.model_copy(update={"empty_history_times": left - 1})
            return []
        for told in (item for item in self.rollbacks if item.history is history):
            rows = [as_if(row, told.status) if told.row in (None, row["id"]) else row for row in rows]
        return rows

    def shown(self, rows: list[Row], show: Callable[[Row], dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows in the dialect's shape, each with the fields that it was told to show instead."""
        return [show(row) | self.shown_instead.get(row["id"], {}) for row in rows]

    @contextmanager
    def rolled_back(self, rollback: Rollback) -> Iterator[None]:
        """Histories inside the block show rows in another status."""
        self.rollbacks.append(rollback)
        try:
            yield
        finally:
            self.rollbacks.remove(rollback)
