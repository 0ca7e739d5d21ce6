"""Every dialect holds what the venue would hold, refuses what it would refuse, and shows what became of it."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import ccxt.async_support as ccxt
import pytest

from tests.sandbox.exchange.dialects.driver import STRANGE, Driver, Order

CASES = {
    "unknown_coin": Order(coin="DOGE"),
    "unknown_network": Order(network="FOO"),
    "bad_address": Order(address="0x1234"),
    "strange_address": Order(address=STRANGE),
    "no_amount": Order(amount=None),
    "malformed_amount": Order(amount="1e-7"),
    "off_step": Order(amount="1.000001"),
    "too_little": Order(amount="0.009"),
    "nothing": Order(amount="0"),
    "too_much": Order(amount="200.1"),
    "insufficient": Order(amount="100.1"),
}
FEE = Decimal("0.001")


async def test_a_withdrawal_holds_amount_and_fee_as_the_venue_counts_them(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    key = driver.submitted_id(await driver.submit(client, Order(amount="1.5")))
    (row,) = await driver.withdrawals(client)
    seen = driver.read_withdrawal(row)
    arrives = Decimal("1.5") - (FEE if driver.amount_includes_fee else 0)
    assert (seen.key, seen.amount, seen.fee, seen.tx_id) == (key, arrives, FEE, None)
    assert seen.status == driver.withdrawal_words["awaiting_approval"]
    held = (await venue.control.balances())["venue_a"]["ETH"]
    assert Decimal(held["withdrawing"]) == arrives + FEE
    assert await driver.free(client, "ETH") == 100 - arrives - FEE


def test_every_driver_knows_the_words_of_every_refusal(driver: Driver) -> None:
    assert set(CASES) - set(driver.refusals) <= {"unknown_network"}  # orders of some wires name no network
    assert set(driver.refusals) <= set(CASES)


async def test_a_refusal_is_in_the_venues_words_and_moves_nothing(driver: Driver, venue: Any, case: str) -> None:
    with pytest.raises(ccxt.BaseError, match=re.escape(driver.refusals[case])):
        await driver.submit(venue.connect(), CASES[case])
    assert await venue.executed() == []
    assert [move["kind"] for move in await venue.control.moves()] == ["opening", "opening"]


async def test_all_that_is_free_can_be_withdrawn_and_not_a_step_more(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    fee = 0 if driver.amount_includes_fee else FEE
    with pytest.raises(ccxt.BaseError, match=re.escape(driver.refusals["insufficient"])):
        await driver.submit(client, Order(amount=str(100 - fee + Decimal("0.00001"))))
    assert driver.submitted_id(await driver.submit(client, Order(amount=str(100 - fee))))
    assert Decimal((await venue.control.balances())["venue_a"]["ETH"]["free"]) == 0


async def test_a_withdrawal_is_found_by_the_clients_own_id_alone(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    for number in range(3):
        await driver.submit(client, Order(client_id=f"leg{number}"))
    recorded = {row["order_id"] for row in await venue.executed()}
    if not driver.has_client_ids:
        assert recorded == {None}
        return
    if driver.shows_client_ids:
        (row,) = await driver.find(client, "leg1")
        assert driver.read_withdrawal(row).client_id == driver.own_id("leg1")
        assert await driver.find(client, "leg9") == []
    own = [driver.own_id(f"leg{number}") for number in range(3)]
    assert recorded == set(own)
    assert [row["order_id"] for row in await venue.control.requests(endpoint="withdraw")] == own


@pytest.mark.parametrize(("policy", "rows"), [("accept", 2), ("return_first", 1), ("refuse", 1)])
async def test_a_repeated_id_of_the_client_is_treated_as_configured(
    driver: Driver, open_venue: Any, policy: str, rows: int
) -> None:
    venue = await open_venue(driver, duplicate_order_ids=policy)
    client = venue.connect()
    first = driver.submitted_id(await driver.submit(client, Order()))
    if not driver.has_client_ids:
        assert driver.submitted_id(await driver.submit(client, Order())) != first
        assert len(await venue.executed()) == 2
        return
    if policy == "refuse":
        with pytest.raises(ccxt.BaseError):
            await driver.submit(client, Order())
    else:
        again = driver.submitted_id(await driver.submit(client, Order()))
        assert (again == first) is (policy == "return_first")
    assert len(await venue.executed()) == rows


@pytest.mark.parametrize(("status", "word"), [(1, "cancelled"), (3, "rejected"), (5, "failure")])
async def test_an_unpaid_end_is_shown_and_returns_the_funds(driver: Driver, venue: Any, status: int, word: str) -> None:
    client = venue.connect()
    key = driver.submitted_id(await driver.submit(client, Order()))
    await venue.control.reject("venue_a", key, status=status)
    (row,) = await driver.withdrawals(client)
    assert driver.read_withdrawal(row).status == driver.withdrawal_words[word]
    assert await driver.free(client, "ETH") == 100


async def test_a_closed_network_is_shown_and_refused(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await venue.control.set_conditions("venue_a", withdraw_disabled=[f"ETH/{driver.network}"])
    assert [(await driver.terms(client, coin))[2] for coin in ("ETH", "USDC")] == [False, True]
    with pytest.raises(ccxt.BaseError, match=re.escape(driver.closed)):
        await driver.submit(client, Order())
    assert await venue.executed() == []


async def test_the_account_is_shown_as_configured(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    assert await driver.terms(client, "ETH") == (FEE, Decimal("0.01"), True)
    assert await driver.terms(client, "USDC") == (1, 2, True)
    assert [await driver.free(client, coin) for coin in ("ETH", "USDC")] == [100, 5000]
    listed = venue.running.exchange.config.venues["venue_a"].coins["USDC"].networks[driver.network]
    assert await driver.deposit_address(client, "USDC") == listed.deposit_address
    if driver.has_address_book:
        assert await driver.address_book(client) == [Order().address]
