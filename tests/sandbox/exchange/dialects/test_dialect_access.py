"""Every dialect admits what the real client signs rightly, and refuses the rest in its venue's words."""

from __future__ import annotations

import re
import time
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from qtg_dagster.sandbox.exchange.dialect import Role
from tests.sandbox.exchange.dialects.driver import Driver, Order


def test_every_driver_spoils_key_secret_and_what_makes_a_request_too_old(driver: Driver) -> None:
    assert {"key", "secret"} < set(driver.spoilt) <= {"key", "secret", "passphrase", "clock", "nonce"}
    assert ("password" in driver.settings) == ("passphrase" in driver.spoilt)


async def test_the_right_key_is_admitted_to_every_endpoint(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    assert driver.submitted_id(await driver.submit(client, Order()))
    await driver.withdrawals(client)
    await driver.deposits(client)
    await driver.free(client, "ETH")
    await driver.terms(client, "ETH")
    await driver.deposit_address(client, "USDC")
    assert not driver.tells_status or await driver.works(client)
    assert await driver.may_withdraw(client)
    if driver.has_address_book:
        await driver.address_book(client)
    asked = await venue.control.requests()
    assert {row["outcome"] for row in asked} == {"executed"}
    lacking = {Role.OTHER, Role.TIME}
    lacking |= set() if driver.has_address_book else {Role.ADDRESS_BOOK}
    lacking |= set() if driver.tells_status else {Role.STATUS}
    lacking |= {Role.DEPOSITS} if driver.one_record else set()
    assert set(Role) - lacking <= {row["role"] for row in asked}


async def test_what_is_not_rightly_signed_is_refused_and_moves_nothing(driver: Driver, venue: Any, spoil: str) -> None:
    settings, words = driver.spoilt[spoil]
    await driver.free(venue.connect(), "ETH")
    spoilt = venue.connect(**settings)
    for ask in (driver.free(spoilt, "ETH"), driver.submit(spoilt, Order())):
        with pytest.raises(ccxt.BaseError, match=re.escape(words)):
            await ask
    assert await venue.executed() == []
    assert (await venue.outcomes("withdraw"))[0].startswith("refused")
    assert driver.submitted_id(await driver.submit(venue.connect(), Order()))


async def test_a_body_that_was_changed_on_the_way_is_refused(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    kept: dict[str, Any] = {}

    async def keep(url: str, method: str, headers: Any, body: str | None) -> Any:
        kept.update(url=url, method=method, headers=headers, content=body)
        return {}

    client.fetch = keep
    await driver.submit(client, Order(amount="1.5"))
    async with httpx.AsyncClient(trust_env=False) as http:
        changed = {**kept, "content": kept["content"].replace("1.5", "1.6")}
        assert changed["content"] != kept["content"]
        refused = await http.request(**changed)
        if not driver.signs_bodies:
            assert driver.submitted_id(refused.json()), "only the way there keeps others from changing it"
            return
        assert driver.submitted_id(refused.json()) is None
        assert await venue.executed() == []
        assert driver.submitted_id((await http.request(**kept)).json())


async def test_a_key_without_the_right_reads_but_does_not_withdraw(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await venue.control.set_conditions("venue_a", key_withdraws=False)
    assert await driver.may_withdraw(client) is not driver.tells_rights
    await driver.withdrawals(client)
    with pytest.raises(ccxt.BaseError, match=re.escape(driver.no_right)):
        await driver.submit(client, Order())
    await venue.control.reset_conditions("venue_a")
    assert driver.submitted_id(await driver.submit(client, Order()))


async def test_maintenance_is_announced_and_refuses_what_is_signed(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await venue.control.set_conditions("venue_a", maintenance=True)
    assert not (driver.tells_status and await driver.works(client))
    with pytest.raises(ccxt.BaseError, match=re.escape(driver.in_maintenance)):
        await driver.submit(client, Order())
    assert await venue.executed() == []


@pytest.mark.parametrize("skew", [-120_000, 120_000])
async def test_the_venue_tells_its_own_time(driver: Driver, venue: Any, skew: int) -> None:
    await venue.control.set_conditions("venue_a", clock_skew_ms=skew)
    assert await driver.clock_ms(venue.connect()) == pytest.approx(time.time() * 1000 + skew, abs=60_000)


async def test_a_path_that_the_venue_does_not_have_is_refused_in_its_shape(driver: Driver, venue: Any) -> None:
    async with httpx.AsyncClient(base_url=venue.running.address, trust_env=False) as http:
        reply = await http.get("/venue_a/nonsense")
    assert driver.submitted_id(reply.json()) is None
    assert (await venue.control.requests())[0]["outcome"].startswith("refused")


async def test_a_key_that_is_bound_to_other_addresses_is_refused_all(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await venue.control.set_conditions("venue_a", ip_allowed=False)
    for ask in (driver.free(client, "ETH"), driver.submit(client, Order())):
        with pytest.raises(ccxt.BaseError):
            await ask
    assert {row["outcome"].split()[0] for row in await venue.control.requests()} == {"refused"}
    assert not driver.tells_status or await driver.works(client)
    assert await venue.executed() == []
