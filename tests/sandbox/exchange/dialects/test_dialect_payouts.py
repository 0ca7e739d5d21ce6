"""Every dialect over a real chain: a withdrawal arrives with its transaction, a deposit is credited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.sandbox.exchange.dialects.driver import TO, Driver, Order

Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
ETHER = 10**18


async def test_money_goes_out_and_comes_back(
    driver: Driver, open_venue: Any, chain: Any, hot_wallet: tuple[Path, str], eventually: Eventually
) -> None:
    chain.fund(hot_wallet[1])
    node = {"rpc_url": chain.url, "chain_id": 31337, "poll_seconds": 0.02}
    venue = await open_venue(driver, chain=node)
    client = venue.connect()
    key = driver.submitted_id(await driver.submit(client, Order(amount="1.5")))

    async def paid() -> Any:
        seen = [driver.read_withdrawal(row) for row in await driver.withdrawals(client)]
        return [row for row in seen if row.status == driver.withdrawal_words["completed"]]

    (done,) = await eventually(paid)
    assert done.key == key
    assert chain.balance(TO) == int(done.amount * ETHER)
    assert chain.call("eth_getTransactionReceipt", done.tx_id)["status"] == "0x1"

    receipt = chain.send(to=await driver.deposit_address(client, "ETH"), value=hex(2 * ETHER))

    async def credited() -> Any:
        seen = [driver.read_deposit(row) for row in await driver.deposits(client)]
        return [row for row in seen if row.status == driver.deposit_words["success"]]

    (got,) = await eventually(credited)
    assert (got.amount, got.tx_id) == (2, receipt["transactionHash"])
    assert await driver.free(client, "ETH") == 102 - done.amount - done.fee
    assert done.amount + done.fee == Decimal("1.5") + (0 if driver.amount_includes_fee else done.fee)
