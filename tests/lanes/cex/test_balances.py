"""Balances by wallet: every page, the venue's own time, and what could not be read is told and never zero."""

# ruff: noqa: ARG002 - a made-up venue reads less than real ones

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from qtg_dagster.host.platform_checks import read_wallets
from qtg_dagster.lanes.cex.accounts import Answer
from qtg_dagster.lanes.cex.balances import VenueBalances
from qtg_dagster.lanes.cex.paging import ByOffset, ByToken, Paging
from qtg_dagster.lanes.cex.reply import LookupFailed, NoSuchWallet, RawReply
from qtg_dagster.lanes.cex.venue import Call, load_venue
from qtg_dagster.lanes.cex.venues.binance import BinanceVenue
from qtg_dagster.lanes.cex.wallets import wallet_balance
from tests.lanes.cex.conftest import MovableClock

SPOT = "/venue_a/sapi/v3/asset/getUserAsset"
FUNDING = "/venue_a/sapi/v1/asset/get-funding-asset"
VENUE_TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)


def held(coin: str, free: str) -> dict[str, str]:
    return {"asset": coin, "free": free, "locked": "0", "freeze": "0", "withdrawing": "0"}


async def test_every_asset_of_every_wallet_has_a_reading_with_zeros(lane: Any, venue: Any) -> None:
    venue.balances = [{"asset": "USDC", "free": "10.500000", "locked": "1", "freeze": "2", "withdrawing": "3"}]
    venue.funding = [held("USDC", "7"), held("BTC", "1")]
    (fetcher,) = lane.cex.balance_fetchers
    spot, funding = await fetcher.fetch()
    assert (spot.asset, spot.free, spot.locked, spot.wallet) == ("USDC", "10.5", "6", fetcher.paying_wallet)
    assert (funding.asset, funding.free, funding.locked, funding.wallet) == ("USDC", "7", "0", "funding")
    assert spot.request_started_at <= spot.request_ended_at
    venue.balances = venue.funding = []
    assert [(each.free, each.locked, each.complete) for each in await fetcher.fetch()] == [("0", "0", True)] * 2


@pytest.mark.parametrize(("failing", "left"), [(SPOT, "funding"), (FUNDING, "spot")])
async def test_a_wallet_that_cannot_be_read_has_no_readings(
    failing: str, left: str, lane: Any, venue: Any, response: Any
) -> None:
    venue.on(failing, raw=response(500, b'{"code":-1000}'))
    (fetcher,) = lane.cex.balance_fetchers
    (reading,) = await fetcher.fetch()
    assert (reading.wallet, reading.complete) == (left, False)
    (told,) = reading.missing
    assert "HTTP_500" in told
    assert not told.startswith(left)
    assert "missing" not in reading.model_dump()  # it is told, and not a column


async def test_a_venue_that_gives_nothing_well_formed_is_a_failure(lane: Any, venue: Any, response: Any) -> None:
    for path in (SPOT, FUNDING):
        venue.on(path, raw=response(200, b"{}"))
    (fetcher,) = lane.cex.balance_fetchers
    with pytest.raises(LookupFailed, match="not a list of rows"):
        await fetcher.fetch()


@pytest.mark.parametrize("status", [418, 429])
async def test_a_venue_that_asked_for_a_pause_is_left_alone(status: int, lane: Any, venue: Any, response: Any) -> None:
    for path in (SPOT, FUNDING):
        venue.on(path, raw=response(status, b'{"code":-1003}', Retry_After="120"))
    (fetcher,) = lane.cex.balance_fetchers
    with pytest.raises(LookupFailed, match=f"HTTP_{status}|PAUSED"):
        await fetcher.fetch()
    asked = len(venue.requests)
    with pytest.raises(LookupFailed, match="PAUSED") as refusal:
        await fetcher.fetch()
    assert len(venue.requests) == asked
    assert refusal.value.retry_after_seconds is not None
    assert 100 < refusal.value.retry_after_seconds <= 120


class Paged(BinanceVenue):
    """A venue whose balances come in pages; `told` is its own time of an answer."""

    def __init__(self, pages: Paging, told: datetime | None) -> None:
        self.balance_pages = pages
        self.told = told

    def balances(self, cursor: str | None = None) -> Call:
        return Call("page", {"cursor": cursor or "first"})

    def other_wallets(self) -> dict[str, Call]:
        return {}

    def read_balances(self, body: Any) -> Any:
        return super().read_balances(body["rows"])

    def read_answer_time(self, body: Any) -> datetime | None:
        return self.told


class Account:
    """Answers pages by their cursor, a second apart."""

    key = "venue_a"
    entry = SimpleNamespace(account="main", assets={"AAA": "AAA", "BBB": "BBB", "CCC": "CCC"})

    def __init__(self, venue: Paged, pages: dict[str, Any], clock: MovableClock) -> None:
        self.venue, self.asked = venue, []
        self._pages, self._clock = pages, clock

    def coin(self, asset: str) -> str:
        return asset

    async def answer(self, call: Call) -> Answer:
        self.asked.append(call.params["cursor"])
        self._clock.advance(1)
        body = self._pages[call.params["cursor"]]
        if isinstance(body, Exception):
            raise body
        return Answer(body, VENUE_TIME)


TOKENS = ByToken(lambda body: body["next"])
PAGES = {
    "first": {"rows": [held("AAA", "1"), held("XXX", "2")], "next": "p2"},
    "p2": {"rows": [held("BBB", "3"), held("AAA", "9")], "next": None},
}


def paged(pages: dict[str, Any], paging: Paging = TOKENS, told: datetime | None = None) -> tuple[Any, VenueBalances]:
    clock = MovableClock()
    account: Any = Account(Paged(paging, told), pages, clock)
    return account, VenueBalances(account, clock)


async def test_a_wallet_that_was_never_opened_is_read_and_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"first": {"rows": [held("AAA", "1")], "next": None}, "other": NoSuchWallet(VENUE_TIME)}
    account, fetcher = paged(pages)
    monkeypatch.setattr(Paged, "other_wallets", lambda _: {"futures": Call("page", {"cursor": "other"})})
    readings = {(reading.wallet, reading.asset): reading for reading in await fetcher.fetch()}
    assert all(reading.complete for reading in readings.values())
    assert (readings["spot", "AAA"].free, readings["futures", "AAA"].free) == ("1", "0")
    assert readings["futures", "AAA"].source_time == VENUE_TIME
    pages["first"] = NoSuchWallet(VENUE_TIME)  # of the wallet that pays it says nothing that can be believed
    with pytest.raises(LookupFailed):
        await wallet_balance(account, "AAA")


async def test_all_pages_are_read_and_none_is_mixed_into_another() -> None:
    account, fetcher = paged(PAGES)
    first, second, nowhere = await fetcher.fetch()
    assert account.asked == ["first", "p2"]
    assert [each.free for each in (first, second, nowhere)] == ["1", "3", "0"]
    assert first.request_ended_at < second.request_started_at
    assert (nowhere.request_started_at, nowhere.request_ended_at) == (
        first.request_started_at,
        second.request_ended_at,
    )


async def test_a_page_that_cannot_be_read_leaves_no_zeros() -> None:
    _, fetcher = paged({**PAGES, "p2": LookupFailed("HTTP_500", "no")})
    with pytest.raises(LookupFailed, match="HTTP_500"):
        await fetcher.fetch()


async def test_pages_that_stand_still_are_a_failure() -> None:
    same = {"rows": [held("XXX", "2")], "next": "p2"}
    _, fetcher = paged({"first": same, "p2": same})
    with pytest.raises(LookupFailed, match="PAGES_STAND_STILL"):
        await fetcher.fetch()


async def test_pages_without_end_are_a_failure() -> None:
    class Endless(dict[str, Any]):
        def __missing__(self, _: str) -> Any:
            return {"rows": [held("XXX", "2")]}

    account, fetcher = paged(Endless(), ByOffset(1))
    with pytest.raises(LookupFailed, match="TOO_MANY_ROWS"):
        await fetcher.fetch()
    assert account.asked[:3] == ["first", "1", "2"]


@pytest.mark.parametrize(("coin", "free", "asked"), [("AAA", "1", 1), ("BBB", "3", 2), ("ZZZ", "0", 2)])
async def test_preflight_looks_at_every_page_until_it_finds_the_coin(coin: str, free: str, asked: int) -> None:
    account, _ = paged(PAGES)
    assert (await wallet_balance(account, coin)).free == Decimal(free)
    assert len(account.asked) == asked


@pytest.mark.parametrize("told", [None, datetime(2026, 3, 1, 11, 59, 59, tzinfo=UTC)])
async def test_the_venues_own_time_is_told_or_that_of_its_server(told: datetime | None) -> None:
    _, fetcher = paged(PAGES, told=told)
    assert {each.source_time for each in await fetcher.fetch()} == {told or VENUE_TIME}


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("Sun, 01 Mar 2026 12:00:00 GMT", VENUE_TIME),
        ("Sun, 01 Mar 2026 21:00:00 +0900", VENUE_TIME),
        ("Sun, 01 Mar 2026 12:00:00", VENUE_TIME),
        ("yesterday", None),
        ("", None),
        ("Sun, 99 Mar 2026 12:00:00 GMT", None),
    ],
)
def test_a_date_is_read_or_is_none(text: str, date: datetime | None) -> None:
    assert RawReply(sent=True, headers={"date": text}).date == date


OTHER: dict[str, tuple[str, Any, Sequence[tuple[str, str, str]]]] = {
    "binance": ("funding", [held("USDC", "7.1")], [("USDC", "7.1", "0")]),
    "okx": (
        "trading",
        {
            "code": "0",
            "data": [
                {
                    "details": [
                        {"ccy": "USDC", "availBal": "5", "cashBal": "7", "frozenBal": "2"},
                        {"ccy": "ETH", "availBal": "", "cashBal": "3", "frozenBal": "1"},
                    ]
                }
            ],
        },
        [("USDC", "5", "2"), ("ETH", "2", "1")],
    ),
    "kraken": (
        "earn",
        {
            "error": [],
            "result": {
                "XXBT": {"balance": "9", "hold_trade": "0"},
                "XBT.F": {"balance": "1.5", "hold_trade": "0.5"},
                "XBT.M": {"balance": "2"},
                "ETH2.S": {"balance": "4"},
            },
        },
        [("XBT", "3.0", "0.5"), ("ETH2", "4", "0")],
    ),
}


@pytest.mark.parametrize("wire", OTHER)
def test_other_wallets_are_read(wire: str) -> None:
    wallet, body, rows = OTHER[wire]
    venue = load_venue(wire)
    assert list(venue.other_wallets()) == [wallet]
    found = venue.read_other_wallet(wallet, body)
    assert [(one.coin, f"{one.free:f}", f"{one.locked:f}") for one in found] == list(rows)


@pytest.mark.parametrize("wire", OTHER)
@pytest.mark.parametrize("body", [None, {}, {"code": "0", "data": []}, {"error": ["EAPI:Invalid key"]}])
def test_what_is_malformed_is_no_empty_wallet(wire: str, body: Any) -> None:
    venue = load_venue(wire)
    read: Callable[..., Any] = venue.read_other_wallet
    with pytest.raises(LookupFailed):
        read(OTHER[wire][0], body)


@pytest.mark.parametrize(("failing", "ok"), [(SPOT, False), (FUNDING, True)])
async def test_doctor_needs_the_wallet_that_pays(failing: str, ok: bool, lane: Any, venue: Any, response: Any) -> None:
    venue.on(failing, raw=response(500, b'{"code":-1000}'))
    (fetcher,) = lane.cex.balance_fetchers
    finding = await read_wallets(fetcher)
    assert finding.ok == ok
    assert "1 balances read, without" in finding.detail
    assert "HTTP_500" in finding.line()
