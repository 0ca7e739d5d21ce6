"""What a venue's adapter offers. Adding a venue is one module under `venues/` with a `VENUE` of this shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from importlib import import_module
from typing import Any, Protocol

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.lanes.cex.outcome import SubmitRules


class RowState(StrEnum):
    """What a venue's status code means. A code that is not in the venue's table is PENDING."""

    PENDING = "PENDING"
    DONE = "DONE"
    LOCKED = "LOCKED"  # credited, and not usable yet
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request through one of ccxt's implicit methods. Values are text: amounts never pass as numbers."""

    method: str
    params: Mapping[str, str] = field(default_factory=dict)
    moves_money: bool = False
    raw_encoded: bool = False  # ccxt puts the values into the body unescaped, so they are escaped before


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time that a history is asked for."""

    start: datetime
    end: datetime

    def split(self, longest: timedelta) -> tuple[Window, ...]:
        """Consecutive windows no longer than `longest`, oldest first."""
        parts, start = [], self.start
        while start < self.end:
            end = min(start + longest, self.end)
            parts.append(Window(start, end))
            start = end
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class Order:
    """A withdrawal in the venue's own names. `amount` is what the account is asked to give, a plain decimal."""

    coin: str
    network: str
    address: str
    memo: str | None
    amount: str
    client_id: str


@dataclass(frozen=True, slots=True)
class WithdrawalRow:
    """A withdrawal on the venue's record; `amount` and `fee` as the venue shows them."""

    withdrawal_id: str
    client_id: str | None
    coin: str
    network: str | None
    address: str | None
    memo: str | None
    amount: Decimal
    fee: Decimal
    state: RowState
    raw_status: str
    status_listed: bool
    tx_id: str | None
    internal: bool
    applied_at: datetime | None
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DepositRow:
    """A deposit on the venue's record."""

    deposit_id: str
    coin: str
    network: str | None
    address: str | None
    memo: str | None
    amount: Decimal
    state: RowState
    raw_status: str
    status_listed: bool
    tx_id: str | None
    inserted_at: datetime | None
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NetworkRules:
    """What a venue asks of a withdrawal of one coin on one network, now."""

    network: str
    withdraw_enabled: bool
    fee: Decimal
    minimum: Decimal
    maximum: Decimal | None
    step: Decimal
    memo_required: bool
    memo_allowed: bool
    memo_pattern: str
    address_pattern: str


@dataclass(frozen=True, slots=True)
class CoinBalance:
    """One coin in the wallet that withdrawals are paid from."""

    coin: str
    free: Decimal
    locked: Decimal  # in orders or frozen
    withdrawing: Decimal


class Venue(Protocol):
    """Requests and readings of one venue's wire. Pure: no I/O, no clock. Readers raise `LookupFailed`."""

    ccxt_id: str
    payload_format: str
    wallet: str
    submit_rules: SubmitRules
    submit_cost: float  # of a withdrawal request, in ccxt's units of the venue's rate limit
    amount_includes_fee: bool
    request_lifetime: timedelta  # how long after its timestamp a signed request can still be taken
    client_id_window: timedelta  # longest window of a look-up by client id
    history_window: timedelta
    ids_per_lookup: int
    page_size: int

    def client_id(self, idempotency_key: str) -> str: ...
    def network_code(self, name: str) -> str: ...

    def submit(self, order: Order, signed_at: datetime) -> Call: ...
    def withdrawal_by_client_id(self, client_id: str, window: Window) -> Call: ...
    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], window: Window) -> Call: ...
    def withdrawals(self, coin: str, window: Window, offset: int) -> Call: ...
    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]: ...

    def deposits(self, coin: str, window: Window, offset: int) -> Call: ...
    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]: ...

    def system_status(self) -> Call: ...
    def read_system_problem(self, body: Any) -> str | None: ...
    def permissions(self) -> Call: ...
    def read_permission_problem(self, body: Any) -> str | None: ...
    def server_time(self) -> Call: ...
    def read_server_time(self, body: Any) -> datetime: ...
    def networks(self) -> Call: ...
    def read_networks(self, body: Any, coin: str) -> tuple[NetworkRules, ...]: ...
    def balances(self) -> Call: ...
    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]: ...


def load_venue(wire: str) -> Venue:
    """The adapter of a wire, by module name; raises `ConfigurationError` when there is none."""
    try:
        module = import_module(f"qtg_dagster.lanes.cex.venues.{wire}")
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"venues: wire {wire!r} has no adapter in lanes/cex/venues") from error
    venue: Venue = module.VENUE
    return venue
