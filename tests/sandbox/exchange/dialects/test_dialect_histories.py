"""Every dialect's histories: pages that rows shift, windows, lags of single endpoints, statuses that go back."""

from __future__ import annotations

import time
from typing import Any

import ccxt.async_support as ccxt
import pytest

from qtg_dagster.sandbox.exchange import books
from qtg_dagster.sandbox.exchange.control import ControlRefused
from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus
from tests.sandbox.exchange.dialects.driver import Driver, Order

HOUR = 3_600_000


async def read_all(driver: Driver, client: Any, limit: int) -> list[str]:
    """Ids of all withdrawals, page by page, as a client without suspicion reads them."""
    keys: list[str] = []
    rows, after = await driver.page(client, limit, None)
    keys += [driver.read_withdrawal(row).key for row in rows]
    while after is not None:
        assert len(keys) < 100, "the pages never end"
        rows, after = await driver.page(client, limit, after)
        keys += [driver.read_withdrawal(row).key for row in rows]
    return keys


async def seed(venue: Any, history: str = "withdrawals", count: int = 7) -> list[str]:
    details = {"newest_ms": int(time.time() * 1000) - HOUR, "spacing_ms": 60_000}
    keys: list[str] = await venue.control.add_rows("venue_a", history, count, **details)
    return keys


async def test_pages_together_are_the_whole_history_newest_first(driver: Driver, venue: Any) -> None:
    few = max(3, driver.page_least)
    keys = await seed(venue, count=2 * few + 1)
    client = venue.connect()
    assert await read_all(driver, client, few) == keys
    assert await read_all(driver, client, 2 * few + 1) == keys
    assert [driver.read_withdrawal(row).key for row in await driver.withdrawals(client)] == keys


async def test_rows_that_come_between_two_pages_shift_offsets_and_no_cursors(driver: Driver, venue: Any) -> None:
    few = max(3, driver.page_least)
    keys = await seed(venue, count=2 * few + 1)
    await venue.control.order(FaultKind.PAGING_SHIFT, endpoint="withdrawals", skip=1, rows=2)
    read = await read_all(driver, venue.connect(), few)
    twice = keys[few - 2 : few] if driver.pages_shift else []
    assert sorted(read) == sorted(keys + twice)
    assert len(await venue.executed()) == len(keys) + 2


async def test_a_page_has_a_limit(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await seed(venue, count=driver.page_limit + 1)
    rows, after = await driver.page(client, driver.page_limit, None)
    assert (len(rows), after is None) == (driver.page_limit, False)
    with pytest.raises(ccxt.BaseError):
        await driver.page(client, driver.page_limit + 1, None)


async def test_a_window_holds_its_own_rows_alone(driver: Driver, venue: Any) -> None:
    keys = await seed(venue, count=4)
    rows = {row["id"]: row["applied_ms"] for row in await venue.executed()}
    seen = await driver.within(venue.connect(), rows[keys[2]], rows[keys[1]])
    assert [driver.read_withdrawal(row).key for row in seen] == keys[1:3]
    times = [driver.read_withdrawal(row).at_ms for row in seen]
    assert times == [rows[key] // driver.grain_ms * driver.grain_ms for key in keys[1:3]]


async def test_every_status_has_the_venues_word(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    (withdrawal,), (deposit,) = await seed(venue, count=1), await seed(venue, "deposits", count=1)
    for name in WithdrawalStatus.__members__:
        await venue.control.show_status("venue_a", "withdrawals", withdrawal, name.lower())
        (row,) = await driver.withdrawals(client)
        assert driver.read_withdrawal(row).status == driver.withdrawal_words[name.lower()]
    for name in DepositStatus.__members__:
        await venue.control.show_status("venue_a", "deposits", deposit, name.lower())
        (row,) = await driver.deposits(client)
        assert driver.read_deposit(row).status == driver.deposit_words[name.lower()]
    await venue.control.show_status("venue_a", "deposits", deposit, None)
    (row,) = await driver.deposits(client)
    assert driver.read_deposit(row).status == driver.deposit_words["success"]
    with pytest.raises(ControlRefused, match="422"):
        await venue.control.show_status("venue_a", "withdrawals", withdrawal, "success")
    with pytest.raises(ControlRefused, match="422"):
        await venue.control.show_status("venue_a", "balances", withdrawal, "completed")
    with pytest.raises(ControlRefused, match="422"):
        await venue.control.add_rows("venue_a", "deposits", 1, coin="DOGE")


@pytest.mark.parametrize("to", [None, "failure", "processing"])
async def test_a_status_goes_back_for_one_look(driver: Driver, venue: Any, to: str | None) -> None:
    client = venue.connect()
    keys = await seed(venue, count=2)
    for key in keys:
        await venue.control.show_status("venue_a", "withdrawals", key, "completed")
    order = {"endpoint": "withdrawals", "to_status": to, "row": keys[1]}
    await venue.control.order(FaultKind.STATUS_ROLLBACK, **order)
    looks = [[driver.read_withdrawal(row).status for row in await driver.withdrawals(client)] for _ in range(2)]
    done, rolled = driver.withdrawal_words["completed"], driver.withdrawal_words[to or "processing"]
    assert looks == [[done, rolled], [done, done]]


async def test_a_credited_deposit_goes_back_for_one_look(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await seed(venue, "deposits", count=1)
    await venue.control.order(FaultKind.STATUS_ROLLBACK, endpoint="deposits")
    await venue.control.order(FaultKind.STATUS_ROLLBACK, endpoint="deposits", to_status="rejected")
    words = [driver.read_deposit((await driver.deposits(client))[0]).status for _ in range(3)]
    assert words == [driver.deposit_words[name] for name in ("pending", "rejected", "success")]


async def test_each_endpoint_lags_by_itself(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await venue.control.set_conditions("venue_a", lag_seconds={"withdrawals": 3600})
    await driver.submit(client, Order())
    await venue.control.add_rows("venue_a", "deposits", 1)
    assert await driver.withdrawals(client) == []
    assert len(await driver.deposits(client)) == 1
    with pytest.raises(ControlRefused, match="withdraw cannot lag"):
        await venue.control.set_conditions("venue_a", lag_seconds={"withdraw": 3600})
    await venue.control.set_conditions("venue_a", lag_seconds={"deposits": 3600})
    assert len(await driver.withdrawals(client)) == 1
    assert await driver.deposits(client) == []
    assert await driver.free(client, "ETH") < 100


async def test_a_lagging_balance_is_that_of_before(
    driver: Driver, open_venue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as an_hour_ago:
        an_hour_ago.setattr(books, "true_ms", lambda: int(time.time() * 1000) - HOUR)
        venue = await open_venue(driver)
    client = venue.connect()
    await driver.submit(client, Order())
    await venue.control.set_conditions("venue_a", lag_seconds={"balances": HOUR / 2000})
    assert await driver.free(client, "ETH") == 100
    await venue.control.set_conditions("venue_a", lag_seconds={})
    assert await driver.free(client, "ETH") < 100


async def test_look_ups_may_find_nothing_a_few_times(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await driver.submit(client, Order())
    await venue.control.set_conditions("venue_a", empty_history_times=2)
    assert [len(await driver.withdrawals(client)) for _ in range(3)] == [0, 0, 1]


async def test_a_row_may_be_told_to_show_something_else(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    (key,) = await seed(venue, count=1)
    await venue.control.show_instead("venue_a", key, surprise="yes")
    (row,) = await driver.withdrawals(client)
    assert row["surprise"] == "yes"
    await venue.control.show_instead("venue_a", key)
    assert "surprise" not in (await driver.withdrawals(client))[0]


async def test_movements_of_others_leave_books_that_agree(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await seed(venue, count=3)
    assert await driver.free(client, "ETH") == 100
    await seed(venue, "deposits", count=3)
    rows = [driver.read_deposit(row) for row in await driver.deposits(client)]
    assert await driver.free(client, "ETH") == 100 + sum(row.amount for row in rows)
    assert len({row.key for row in rows} | {row.tx_id for row in rows}) == 6
