"""Venue accounts of the inventory: their wire, their names for our assets and chains, and one transport each."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from qtg_dagster.domain.errors import ConfigurationError, InvalidInput
from qtg_dagster.inventory import Inventory, VenueEntry
from qtg_dagster.lanes.cex.access import access_refusal
from qtg_dagster.lanes.cex.reply import LookupFailed, NoSuchRow, NoSuchWallet, RawReply
from qtg_dagster.lanes.cex.transport import Credentials, Transport
from qtg_dagster.lanes.cex.venue import Access, Call, NetworkRules, Order, Repeats, Venue, load_venue

_THROTTLED = frozenset({418, 429})
_DEFAULT_PAUSE_SECONDS = 30.0
_LOCKED_OUT_SECONDS = 300.0
HEALTH_SECONDS = 4.0  # well under what the health worker waits for all venues together


@dataclass(frozen=True, slots=True)
class Answer:
    """What a read brought, and when the venue's server says that it answered."""

    body: Any
    date: datetime | None


class VenueAccount:
    """One account at one venue. Its secrets are read at the first request, not before."""

    def __init__(self, key: str, entry: VenueEntry, *, timeout_seconds: float = 10.0) -> None:
        self.key = key
        self._timeout_seconds = timeout_seconds
        self._paused_until = 0.0
        self._status: str | None = None
        self._status_until = 0.0
        self._last_submits: dict[tuple[str, str], float] = {}
        self.entry = entry
        venue = load_venue(entry.wire)
        self.venue: Venue = venue if entry.travel_rule is None else venue.under_travel_rule()
        if entry.resend_is_safe and self.venue.repeats is not Repeats.IDEMPOTENT:
            raise ConfigurationError(f"venues.{key}.resend_is_safe: {entry.wire} does not promise it; remove the line")

    @cached_property
    def transport(self) -> Transport:
        """The account's own client; raises `ConfigurationError` when a secret is missing."""
        passphrase = self.entry.api_passphrase
        credentials = Credentials(
            self.entry.api_key.read(f"venues.{self.key}.api_key"),
            self.entry.api_secret.read(f"venues.{self.key}.api_secret"),
            None if passphrase is None else passphrase.read(f"venues.{self.key}.api_passphrase"),
        )
        return Transport(
            self.venue.ccxt_id,
            credentials,
            base_url=self.entry.base_url,
            timeout_seconds=self._timeout_seconds,
            one_at_a_time=self.venue.one_request_at_a_time,
            rate_window_seconds=self.venue.rate_window_seconds,
        )

    async def ready_to_submit(self, order: Order) -> None:
        """Do all waiting that comes before a withdrawal request, so that it leaves when it is signed."""
        self._last_submits[order.coin, order.network] = time.monotonic()
        await self.transport.ready_to_submit(self.venue.submit_cost)

    def seconds_until_turn(self, order: Order) -> float:
        """How long the venue still wants to be left alone with withdrawals of this coin over this network.

        As far as this process knows: what another one sent last is refused by the venue itself. No stand-in wants it.
        """
        if self.transport.is_local:
            return 0.0
        last = self._last_submits.get((order.coin, order.network), -math.inf)
        return max(0.0, last + self.venue.seconds_between_submits - time.monotonic())

    async def open(self) -> None:
        """Load what a request needs, so that whoever times the venue times nothing else; sends nothing."""
        await self.transport.open()

    async def call(self, call: Call) -> RawReply:
        """Send one request and give the raw reply."""
        return await self.transport.call(call)

    async def read(self, call: Call) -> Any:
        """The JSON of a read; see `answer`."""
        return (await self.answer(call)).body

    async def answer(self, call: Call) -> Answer:
        """A read's JSON and time; raises `LookupFailed` when there is no well-formed 2xx answer.

        It is an `AccessRefused` where the venue says why it lets us not in, `NoSuchWallet` where the customer has none
        of that kind, and `NoSuchRow` where nothing has the id that was asked for. A venue that asked for a pause is not
        asked anything until it is over: insisting gets an address banned.
        """
        reply = await self._reply(call)
        code = None if reply.json is None else self.venue.read_error(reply.json).error_code
        if code in self.venue.no_wallet_codes:
            raise NoSuchWallet(reply.date)
        if code is not None and code in self.venue.no_row_codes:
            raise NoSuchRow(code)
        return Answer(reply.payload(plain=call.plain), reply.date)

    async def _reply(self, call: Call) -> RawReply:
        pause = self._paused_until - time.monotonic()
        if pause > 0:
            raise LookupFailed("PAUSED", f"{self.key} asked for a pause", retry_after_seconds=math.ceil(pause))
        reply = await self.transport.call(call)
        if reply.status in _THROTTLED:
            self._paused_until = time.monotonic() + (reply.retry_after_seconds or _DEFAULT_PAUSE_SECONDS)
        refusal = access_refusal(self.key, self.venue, reply)
        if refusal is not None and refusal.kind is Access.LOCKED_OUT:
            self._paused_until = time.monotonic() + (reply.retry_after_seconds or _LOCKED_OUT_SECONDS)
        if refusal is not None:
            raise refusal
        return reply

    async def server_time(self) -> datetime:
        """The venue's own clock; raises `LookupFailed`."""
        call = self.venue.server_time()
        reply = await self._reply(call)
        body = reply.payload(plain=call.plain)
        return self.venue.read_server_time(reply.date if self.venue.time_in_header else body)

    async def networks(self, coin: str, network: str) -> tuple[NetworkRules, ...]:
        """What the venue asks of withdrawals of the coin, by network, and all of this one; raises `LookupFailed`."""
        bodies = await asyncio.gather(*(self.read(call) for call in self.venue.networks(coin)))
        listed = self.venue.read_networks(bodies, coin)
        call = self.venue.terms(coin, network) if network in {rules.network for rules in listed} else None
        if call is None:
            return listed
        terms = await self.read(call)
        return tuple(self.venue.read_terms(terms, rules) if rules.network == network else rules for rules in listed)

    async def maintenance(self) -> str | None:
        """What the venue says of itself that keeps it from working; None also where it cannot be asked."""
        call = self.venue.system_status()
        if call is None:
            return None
        if time.monotonic() >= self._status_until:
            self._status = self.venue.read_system_problem(await self.read(call))
            self._status_until = time.monotonic() + self.venue.status_seconds
        return self._status

    async def permission_problem(self) -> str | None:
        """Why the key may not withdraw; None when it may."""
        return self.venue.read_permission_problem(await self.read(self.venue.permissions()))

    async def close(self) -> None:
        """Give connections back, if any request was ever made."""
        if "transport" in self.__dict__:
            await self.transport.close()

    def coin(self, asset_key: str) -> str:
        """The venue's name of an asset; raises `InvalidInput` for one that the inventory does not give it."""
        if asset_key not in self.entry.assets:
            known = ", ".join(sorted(self.entry.assets)) or "none"
            raise InvalidInput("config.asset", f"{self.key} has no asset {asset_key!r}", f"Use one of {known}.")
        return self.venue.coin_code(self.entry.assets[asset_key])

    def network(self, chain: str) -> str:
        """The venue's code of a chain; raises `InvalidInput` for one that the inventory does not give it."""
        if chain not in self.entry.networks:
            known = ", ".join(sorted(self.entry.networks)) or "none"
            raise InvalidInput("config.chain", f"{self.key} has no network for {chain!r}", f"Use one of {known}.")
        return self.venue.network_code(self.entry.networks[chain])


class VenueAccounts:
    """All venue accounts by their inventory key. `health_seconds` is how long a health check waits for a venue."""

    def __init__(
        self, inventory: Inventory, *, timeout_seconds: float = 10.0, health_seconds: float = HEALTH_SECONDS
    ) -> None:
        self.inventory = inventory
        self.health_seconds = health_seconds
        self._accounts = {
            key: VenueAccount(key, entry, timeout_seconds=timeout_seconds) for key, entry in inventory.venues.items()
        }

    def __iter__(self) -> Iterator[VenueAccount]:
        return iter(self._accounts.values())

    def account(self, key: str) -> VenueAccount:
        """The account under this key; raises `InvalidInput` with the known keys."""
        if key not in self._accounts:
            known = ", ".join(sorted(self._accounts)) or "none"
            raise InvalidInput("config.venue", f"{key!r} is not in the inventory", f"Use one of {known}.")
        return self._accounts[key]

    @property
    def settle_seconds(self) -> float:
        """The longest time that any venue's empty look-ups prove nothing."""
        return max((account.entry.settle_seconds for account in self), default=0.0)

    async def close(self) -> None:
        """Give all connections back."""
        for account in self:
            await account.close()
