"""What a venue's adapter offers. Adding a venue is one module under `venues/` with a `VENUE` of this shape."""

# ruff: noqa: ARG002 - what venues that can be asked read
from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from importlib import import_module
from types import MappingProxyType
from typing import Any

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import Paging


class RowState(StrEnum):
    """What a venue's status code means. A code that is not in the venue's table is PENDING."""

    PENDING = "PENDING"
    DONE = "DONE"
    LOCKED = "LOCKED"  # credited, and not usable yet
    HELD = "HELD"  # the venue does not go on until a person has spoken with it
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class FeeRule(StrEnum):
    """What a venue does with its fee when it is asked for an amount."""

    FROM_AMOUNT = "FROM_AMOUNT"  # less arrives than is asked for
    ON_TOP = "ON_TOP"  # what is asked for arrives, and the account gives more
    EITHER = "EITHER"  # not documented: the account must be able to give more, and less may arrive


class Identity(StrEnum):
    """How a withdrawal of ours can be told from others on the venue's record."""

    SEARCHABLE = "SEARCHABLE"  # the record can be asked for our id
    ON_ROWS = "ON_ROWS"  # rows show our id, and cannot be asked for by it
    SENT_ONLY = "SENT_ONLY"  # our id is taken, and never shown again
    NONE = "NONE"  # the venue takes no id of ours

    @property
    def is_shown(self) -> bool:
        """Whether a row says by itself that it is ours."""
        return self in (Identity.SEARCHABLE, Identity.ON_ROWS)


class Repeats(StrEnum):
    """What a venue promises about a request whose id it has seen before."""

    UNSPECIFIED = "UNSPECIFIED"
    IDEMPOTENT = "IDEMPOTENT"  # the first withdrawal is answered, and none is added


class Access(StrEnum):
    """Why a venue does not let us in."""

    WRONG_KEY = "WRONG_KEY"
    WRONG_SIGNATURE = "WRONG_SIGNATURE"
    WRONG_PASSPHRASE = "WRONG_PASSPHRASE"  # noqa: S105 - a reason, no secret
    IP_NOT_ALLOWED = "IP_NOT_ALLOWED"
    ACCOUNT_KIND = "ACCOUNT_KIND"  # this wire is not for accounts of that kind
    NO_PERMISSION = "NO_PERMISSION"
    KEY_IP_OR_PERMISSION = "KEY_IP_OR_PERMISSION"  # the venue has one answer for all three
    CLOCK = "CLOCK"
    NONCE = "NONCE"  # a higher one was used already
    LOCKED_OUT = "LOCKED_OUT"  # for a while, and longer for whoever insists
    MAINTENANCE = "MAINTENANCE"


class TravelRule(StrEnum):
    """What a venue wants to be told of a withdrawal's beneficiary."""

    NOTHING = "NOTHING"
    BENEFICIARY = "BENEFICIARY"


@dataclass(frozen=True, slots=True)
class Unlisted:
    """An endpoint that ccxt signs for when asked outright, and has no method of its own for.

    `api` is its name of the part of the venue's interface, `cost` what the request counts in ccxt's units.
    """

    api: str
    verb: str
    path: str
    cost: float


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request through one of ccxt's implicit methods. Values are text: amounts never pass as numbers.

    `objects` are parameters that are objects or lists in JSON, without fractions. `private` are texts that must not be
    seen in anything that comes back. With `plain` the answer may be a bare word instead of JSON.
    """

    method: str
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    moves_money: bool = False
    raw_encoded: bool = False  # ccxt puts the values into the body unescaped, so they are escaped before
    unlisted: Unlisted | None = None
    objects: Mapping[str, Any] = field(default_factory=dict, repr=False)
    private: tuple[str, ...] = field(default=(), repr=False)
    plain: bool = False


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
    """A withdrawal in the venue's own names. `amount` is what the venue is asked for, a plain decimal.

    `saved_as` is the destination's name in the venue's address book, where withdrawals are asked for by that name.
    `beneficiary` is the digest of what the venue is told of the beneficiary, where it wants to know.
    """

    coin: str
    network: str
    address: str
    memo: str | None
    amount: str
    client_id: str
    saved_as: str | None = None
    max_fee: str | None = None
    beneficiary: str | None = None


@dataclass(frozen=True, slots=True)
class WithdrawalRow:
    """A withdrawal on the venue's record; `amount` and `fee` as the venue shows them.

    `other_id` is the same withdrawal's id on another record of the venue.
    """

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
    saved_as: str | None = None
    other_id: str | None = None


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
    fee_rate: Decimal = Decimal(0)  # the part of the amount that is taken beside `fee`
    fee_known: bool = True  # else nobody says it before the withdrawal was taken, and `fee` means nothing

    def fee_of(self, amount: Decimal) -> Decimal:
        """What is taken for a withdrawal of this amount."""
        return self.fee + self.fee_rate * amount


@dataclass(frozen=True, slots=True)
class CoinBalance:
    """One coin in the wallet that withdrawals are paid from."""

    coin: str
    free: Decimal
    locked: Decimal  # in orders or frozen
    withdrawing: Decimal


@dataclass(frozen=True, slots=True)
class SavedAddress:
    """An entry of the venue's address book."""

    name: str
    network: str
    address: str
    memo: str | None
    usable: bool
    coin: str | None = None  # named where a venue's answer tells of other coins too


@dataclass(frozen=True, slots=True)
class DepositAddress:
    """Where the venue takes deposits of a coin on a network."""

    network: str
    address: str
    memo: str | None


class Venue(ABC):
    """Requests and readings of one venue's wire. Pure: no I/O, no clock. Readers raise `LookupFailed`.

    What is None or empty here is a question that the venue cannot be asked.
    """

    ccxt_id: str
    payload_format: str
    wallet: str
    submit_rules: SubmitRules
    submit_cost: float  # of a withdrawal request, in ccxt's units of the venue's rate limit
    rate_window_seconds: float = 0  # how long a request counts; 0 = ccxt's default, where a dear one delays the next
    seconds_between_submits: float = 0  # of one coin over one network
    status_seconds: float = 0  # how long what the venue says of itself is good, where it may seldom be asked
    fee_rule: FeeRule
    identity: Identity
    repeats: Repeats = Repeats.UNSPECIFIED
    request_lifetime: timedelta | None  # how long after its timestamp a signed request is taken; None = no end is known
    client_id_window: timedelta = timedelta(days=7)  # longest window of a look-up by client id
    history_window: timedelta
    ids_per_lookup: int  # 0 = the record cannot be asked for ids and is read through
    ids_of_one_coin: bool = False  # whether a look-up by ids must name their coin
    withdrawal_pages: Paging
    deposit_pages: Paging
    one_request_at_a_time: bool = False  # where a request that overtakes another makes that one invalid
    saved_addresses_only: bool = False  # withdrawals name an entry of the address book
    takes_fee_ceiling: bool = False  # a withdrawal can name the most that it may cost
    lists_closed_networks: bool = True  # else a network that is missing may be closed for the moment
    ends_told_by_id: bool = False  # of a row that is held, the venue may say more when asked for it by its id
    histories_of_all_coins: bool = True  # else a history has to be asked for coin by coin
    newest_first: bool = False  # histories take no bounds in time: they are read from the newest page on
    rows_show_destination: bool = True  # else the chain or a person has to say where a withdrawal went
    deposits_show_destination: bool = True  # else a deposit is told by its transaction alone
    takes_copies: bool = False  # nothing stops a copy of a taken request: what looks like ours beside ours is one
    time_in_header: bool = False  # no body tells the venue's time: the Date of an answer is read
    confirmations: tuple[str, ...] = ()  # fields of a row that may say how often its transaction is confirmed
    balance_pages: Paging | None = None  # where the balances of one wallet come in pages
    no_row_codes: frozenset[str] = frozenset()  # with which a look for one id says that there is nothing under it
    no_wallet_codes: frozenset[str] = frozenset()  # with which it says that the customer has no such wallet
    #: Codes with which any endpoint says that it does not let us in; `read_error` reads them from a body.
    access_codes: Mapping[str, Access] = MappingProxyType({})

    @property
    def absence_can_prove(self) -> bool:
        """Whether our id can be asked for, and a request that was not taken by some time never will be."""
        return self.identity is Identity.SEARCHABLE and self.request_lifetime is not None

    def client_id(self, idempotency_key: str) -> str:
        """Thirty-two letters and digits, always the same for the same key."""
        return hashlib.sha256(b"qtg.cex.client-id.v1:" + idempotency_key.encode()).hexdigest()[:32]

    def coin_code(self, name: str) -> str:
        """The venue's first name of a coin that it calls by several."""
        return name

    @abstractmethod
    def network_code(self, name: str) -> str: ...
    @abstractmethod
    def submit(self, order: Order, signed_at: datetime) -> Call: ...

    def withdrawal_by_client_id(self, client_id: str, window: Window) -> Call | tuple[Call, ...]:
        """Asked only of a venue whose identity is SEARCHABLE; several requests where it has several records."""
        raise NotImplementedError

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], coin: str, window: Window) -> Call | tuple[Call, ...]:
        """Asked only of a venue with `ids_per_lookup` above zero; several requests where it has several records."""
        raise NotImplementedError

    @abstractmethod
    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        """One page of the record; of all coins where `coin` is None and `histories_of_all_coins`."""

    @abstractmethod
    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]: ...
    @abstractmethod
    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        """One page of the record; of all coins where `coin` is None and `histories_of_all_coins`."""

    @abstractmethod
    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]: ...

    def newest_on_page(self, body: Any) -> datetime | None:
        """The time of a page's newest row where the record is of more than what is read from it; None elsewhere."""
        return None

    def arriving(self, row: WithdrawalRow) -> Decimal:
        """What arrives of a withdrawal on record: where rows do not show that, what follows from them."""
        return row.amount

    def read_error(self, body: Any) -> SubmitBody:
        """The code and words in an answer of any endpoint; never raises."""
        return self.submit_rules.read(body)

    def system_status(self) -> Call | None:
        return None

    def read_system_problem(self, body: Any) -> str | None:
        raise NotImplementedError

    @abstractmethod
    def permissions(self) -> Call: ...
    @abstractmethod
    def read_permission_problem(self, body: Any) -> str | None: ...
    @abstractmethod
    def server_time(self) -> Call: ...
    @abstractmethod
    def read_server_time(self, body: Any) -> datetime:
        """From an answer's body, or, where there is `time_in_header`, from what its Date says, which may be None."""

    @abstractmethod
    def networks(self, coin: str) -> tuple[Call, ...]:
        """All that has to be asked to know the coin's networks, whether or not the answers tell of other coins too."""

    @abstractmethod
    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]: ...

    def terms(self, coin: str, network: str) -> Call | None:
        """What has to be asked besides of a listed network, where a venue tells its terms one network at a time."""
        return None

    def read_terms(self, body: Any, rules: NetworkRules) -> NetworkRules:
        """The network's rules with its terms."""
        raise NotImplementedError

    @abstractmethod
    def balances(self, cursor: str | None = None) -> Call:
        """The wallet that withdrawals are paid from; with a cursor only where there are `balance_pages`."""

    @abstractmethod
    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]: ...

    def other_wallets(self) -> Mapping[str, Call]:
        """Wallets beside the one that withdrawals are paid from, by the venue's name: one request reads one."""
        return {}

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:
        raise NotImplementedError

    def read_answer_time(self, body: Any) -> datetime | None:
        """The venue's own time of an answer, where its envelope tells it."""
        return None

    def travel_rule(self, order: Order) -> Call | None:
        """What asks whether the venue wants to know the beneficiary of a withdrawal."""
        return None

    def read_travel_rule(self, body: Any, order: Order) -> TravelRule:
        raise NotImplementedError

    def with_beneficiary(self, call: Call, beneficiary: Mapping[str, Any]) -> Call | None:
        """The withdrawal request with what the venue wants to know of the beneficiary, in the venue's own names.

        None where the venue takes nothing of the kind. Raises `InvalidInput` for names that it does not know.
        """
        return None

    def under_travel_rule(self) -> Venue:
        """How the venue speaks with an account that has to tell beneficiaries, where that is another way than else."""
        return self

    def address_book(self, coin: str) -> Call | None:
        return None

    def more_of_address_book(self, asked: Call, body: Any) -> Call | None:
        """What has to be asked after an answer to know the whole book, where one answer does not tell it."""
        return None

    def read_address_book(self, body: Any) -> tuple[SavedAddress, ...]:
        raise NotImplementedError

    def deposit_address(self, coin: str, network: str) -> Call | None:
        return None

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:
        raise NotImplementedError


def load_venue(wire: str) -> Venue:
    """The adapter of a wire, by module name; raises `ConfigurationError` when there is none."""
    try:
        module = import_module(f"qtg_dagster.lanes.cex.venues.{wire}")
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"venues: wire {wire!r} has no adapter in lanes/cex/venues") from error
    venue: Venue = module.VENUE
    return venue
