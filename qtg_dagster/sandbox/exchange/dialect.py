"""A dialect: how one venue speaks. Adding a wire is one module or folder under `dialects/` with a `DIALECT` class."""

from __future__ import annotations

import json
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from secrets import token_hex, token_urlsafe
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from uuid import uuid4

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange import dialects
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, VenueRequest

if TYPE_CHECKING:
    from qtg_dagster.sandbox.exchange.venue import Venue

Repeats = Literal["accept", "return_first", "refuse"]


class Role(StrEnum):
    """What an endpoint is for, whatever its path: faults and lags may be ordered by role for any wire."""

    WITHDRAW = "withdraw"
    WITHDRAWALS = "withdrawals"
    DEPOSITS = "deposits"
    NETWORKS = "networks"
    BALANCES = "balances"
    STATUS = "status"
    PERMISSIONS = "permissions"
    TIME = "time"
    DEPOSIT_ADDRESS = "deposit_address"
    ADDRESS_BOOK = "address_book"
    OTHER = "other"


HISTORIES = (Role.WITHDRAWALS, Role.DEPOSITS)


class Access(StrEnum):
    """Who may ask."""

    PUBLIC = "public"
    READ = "read"
    WITHDRAW = "withdraw"


@dataclass(frozen=True)
class Endpoint:
    """One endpoint; `path` may hold names, as in `/v2/accounts/{account}/transactions`.

    `also` names further roles: some wires tell of withdrawals and deposits in one place.
    """

    method: str
    path: str
    answer: Callable[[Any], Any]
    role: Role = Role.OTHER
    access: Access = Access.READ
    status: int = 200
    also: tuple[Role, ...] = ()

    @property
    def roles(self) -> tuple[Role, ...]:
        return (self.role, *self.also)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.path)))


@dataclass(frozen=True, slots=True)
class Credentials:
    """A customer's key at a venue, in the shape that the wire's keys have."""

    api_key: str
    api_secret: str
    api_passphrase: str | None = None


class Dialect(ABC):
    """One venue's way of speaking, over its state. Answers are JSON bodies; refusals and `Declined` are raised."""

    content_type: ClassVar[str] = "application/json"
    order_id_name: ClassVar[str | None] = None  # the parameter with the client's own id
    repeats: ClassVar[Repeats] = "accept"  # of a client's own id, when the configuration does not say
    ethereum: ClassVar[str] = "ETH"  # what the venue calls that network
    saves_addresses: ClassVar[bool] = False  # whether withdrawals go to names in the address book alone

    def __init__(self, venue: Venue) -> None:
        self.venue = venue
        self.check()

    def check(self) -> None:  # noqa: B027 - most wires need no more than every venue has
        """Raise `ConfigurationError` when the venue lacks what this wire cannot do without."""

    @classmethod
    def new_credentials(cls) -> Credentials:
        """A fresh key."""
        return Credentials(token_hex(16), token_urlsafe(32))

    @abstractmethod
    def endpoints(self) -> Sequence[Endpoint]:
        """All that this wire answers to."""

    @abstractmethod
    def read(self, request: VenueRequest) -> Parameters:
        """The parameters of a request that need not be signed."""

    @abstractmethod
    def authenticate(self, request: VenueRequest) -> Parameters:
        """Check key, signature and clock or nonce in the venue's order; the parameters, or raises `Refusal`."""

    @abstractmethod
    def decline(self, declined: Declined) -> Refusal:
        """The venue's words for a reason."""

    def not_from_here(self) -> Refusal:
        """The venue's words to a key from an address that the key is not bound to."""
        return self.decline(Declined(Reason.KEY_MAY_NOT))

    @abstractmethod
    def error_body(self, refusal: Refusal) -> Any:
        """The body that a refusal comes in."""

    def success_body(self, result: Any) -> Any:
        """The body that an answer comes in."""
        return result

    def encode(self, body: Any) -> str:
        """A body as text."""
        return json.dumps(body)

    def order_id(self, request: VenueRequest) -> str | None:
        """The client's own id in a request, if any; never raises."""
        if self.order_id_name is None:
            return None
        try:
            return self.read(request).text(self.order_id_name)
        except Refusal:
            return None

    def withdrawal_id(self) -> str:
        """A fresh id in the shape that the venue gives to withdrawals."""
        return uuid4().hex

    def deposit_id(self) -> str:
        """A fresh id in the shape that the venue gives to deposits."""
        return str(uuid4().int % 10**18)


def known_wires() -> tuple[str, ...]:
    """The wires that there are dialects of."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(dialects.__path__)))


def load_dialect(wire: str) -> type[Dialect]:
    """The dialect of a wire, by module name; raises `ConfigurationError` when there is none."""
    if wire not in known_wires():
        raise ConfigurationError(f"wire: {wire!r} has no dialect in sandbox/exchange/dialects; known: {known_wires()}")
    found: type[Dialect] = import_module(f"{dialects.__name__}.{wire}").DIALECT
    return found
