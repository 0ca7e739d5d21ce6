"""How the suites of all dialects speak to one: real ccxt calls behind the same few questions for every wire."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

API_KEY = "key-of-the-desk"
TO = "0x" + "cd" * 20
STRANGE = "0x" + "ee" * 20


@dataclass(frozen=True)
class Order:
    """A withdrawal to ask for; `network` None = the wire's name for the one network there is."""

    coin: str = "ETH"
    amount: str | None = "1.5"
    address: str = TO
    network: str | None = None
    client_id: str = "leg1"


@dataclass(frozen=True)
class Seen:
    """A row of a history, read back."""

    key: str
    amount: Decimal
    status: str
    tx_id: str | None
    at_ms: int
    fee: Decimal = Decimal(0)
    client_id: str | None = None


Rows = list[dict[str, Any]]
Next = Mapping[str, Any] | None


class Driver(ABC):
    """One wire. A new dialect brings a module `drive_<wire>.py` with a `DRIVER`, and every suite runs over it."""

    wire: ClassVar[str]
    network: ClassVar[str]
    has_client_ids: ClassVar[bool] = True
    shows_client_ids: ClassVar[bool] = True  # whether the record can be asked for them
    has_address_book: ClassVar[bool] = False
    amount_includes_fee: ClassVar[bool] = True
    tells_status: ClassVar[bool] = True  # whether the venue can be asked if it is in maintenance
    pages_shift: ClassVar[bool] = False  # whether rows that come in between make a reader see rows twice
    tells_rights: ClassVar[bool] = True  # whether the venue says what a key may do
    grain_ms: ClassVar[int] = 1  # how finely the rows tell their time
    copy_outcome: ClassVar[str] = "executed"  # what becomes of a copy of a request
    copies_add: ClassVar[bool] = True  # whether a copy that is executed is another withdrawal
    signs_bodies: ClassVar[bool] = True  # whether a body that is changed on the way is noticed
    one_record: ClassVar[bool] = False  # whether withdrawals and deposits stand in one place

    settings: ClassVar[Mapping[str, str]]  # ccxt's, with the right credentials
    spoilt: ClassVar[Mapping[str, tuple[Mapping[str, Any], str]]]  # ccxt's settings, and the venue's words
    venue_fields: ClassVar[Mapping[str, Any]]  # the same credentials for the stand-in, and what else it needs
    refusals: ClassVar[Mapping[str, str]]  # cases of the suite -> the venue's words
    no_right: ClassVar[str]  # the venue's words to a key that may not withdraw
    in_maintenance: ClassVar[str]
    closed: ClassVar[str]  # the venue's words for a network that is closed
    withdrawal_words: ClassVar[Mapping[str, str]]  # the ledger's status -> the wire's, for every status
    deposit_words: ClassVar[Mapping[str, str]]
    page_least: ClassVar[int] = 1  # fewest rows that a page may be asked for
    page_limit: ClassVar[int]  # most rows of a page; one more is refused

    @abstractmethod
    async def submit(self, client: Any, order: Order) -> Any: ...

    @abstractmethod
    def submitted_id(self, reply: Any) -> str | None:
        """The withdrawal's id in a reply, None when it holds none; never raises."""

    @abstractmethod
    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        """A page of withdrawals and where the next one starts; None = it was the last."""

    @abstractmethod
    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        """Withdrawals of a stretch of time."""

    def own_id(self, client_id: str) -> str:
        """A name of the suites in the form that this wire takes."""
        return client_id

    async def find(self, client: Any, client_id: str) -> Rows:
        """Withdrawals by the client's own id."""
        raise NotImplementedError

    @abstractmethod
    def read_withdrawal(self, row: dict[str, Any]) -> Seen: ...

    @abstractmethod
    async def deposits(self, client: Any) -> Rows: ...

    @abstractmethod
    def read_deposit(self, row: dict[str, Any]) -> Seen: ...

    @abstractmethod
    async def free(self, client: Any, coin: str) -> Decimal: ...

    @abstractmethod
    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        """Fee, least amount, and whether withdrawals are open."""

    @abstractmethod
    async def may_withdraw(self, client: Any) -> bool: ...

    async def works(self, client: Any) -> bool:
        """Whether the venue says that it is not in maintenance."""
        raise NotImplementedError

    @abstractmethod
    async def clock_ms(self, client: Any) -> int: ...

    @abstractmethod
    async def deposit_address(self, client: Any, coin: str) -> str: ...

    async def address_book(self, client: Any) -> list[str]:
        """The addresses saved at the venue."""
        raise NotImplementedError

    async def withdrawals(self, client: Any) -> Rows:
        """The newest withdrawals."""
        return (await self.page(client, self.page_limit, None))[0]
