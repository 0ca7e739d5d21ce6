"""What came to an address, read from a real chain: nothing is said to have come only where all of it was looked at."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.lanes.evm import arrivals, erc20
from qtg_dagster.lanes.evm.arrivals import Arrivals
from qtg_dagster.lanes.evm.endpoint import RpcRefused, RpcUnavailable
from qtg_dagster.sandbox import contracts

CHAIN = "eip155:31337"
DESTINATION = "0x" + "aB" * 20
HOUR = timedelta(hours=1)


async def minted(desk: Any, recipient: str, units: int = 500_000) -> None:
    data = contracts.call("mint(address,uint256)", ("address", recipient), ("uint256", units))
    await asyncio.to_thread(desk.faucet.send, to=desk.token, data=data)


async def arrived(desk: Any, asset: str = "USDC", since: datetime | None = None, **asked: Any) -> tuple[str, ...]:
    fields = {"chain": CHAIN, "destination": DESTINATION, **asked}
    return await Arrivals(desk.chains).arrived(asset=asset, since=since or datetime.now(UTC) - HOUR, **fields)


def a_day_passes(desk: Any) -> datetime:
    """Blocks of another day before, so that there is something to leave out; the moment between."""
    newest = int(desk.faucet.call("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    desk.faucet.call("evm_setNextBlockTimestamp", newest + 86_400)
    desk.mine(1)
    return datetime.fromtimestamp(newest + 43_200, UTC)


async def test_every_transfer_of_the_token_to_the_address_counts_and_no_other(desk: Any) -> None:
    desk.mine(1)
    assert await arrived(desk) == ()
    await minted(desk, DESTINATION.lower())
    await minted(desk, DESTINATION.lower(), 250_000)
    await minted(desk, "0x" + "66" * 20)
    nothing = erc20.transfer_call(DESTINATION.lower(), 0)  # what strangers send to leave a trace of theirs
    await asyncio.to_thread(desk.faucet.send, to=desk.token, data=nothing)
    assert sorted(await arrived(desk)) == ["0.25", "0.5"]


async def test_what_came_before_is_left_out(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await minted(desk, DESTINATION.lower())
    desk.mine(200)
    between = a_day_passes(desk)
    monkeypatch.setattr(arrivals.time, "time", lambda: (between + 12 * HOUR).timestamp())
    assert await arrived(desk, since=between) == ()
    await minted(desk, DESTINATION.lower(), 250_000)
    assert await arrived(desk, since=between) == ("0.25",)
    assert sorted(await arrived(desk, since=between - 24 * HOUR)) == ["0.25", "0.5"]


async def test_coins_are_told_by_the_balance_whoever_paid_them(desk: Any) -> None:
    desk.mine(3)
    assert await arrived(desk, "ETH", destination="0x" + "67" * 20) == ()
    await asyncio.to_thread(desk.faucet.send, to=DESTINATION.lower(), value=5 * 10**17)
    since = datetime.now(UTC) - HOUR
    assert await arrived(desk, "ETH", since) == ("0.5",)


async def test_a_balance_that_tells_nothing_is_no_answer(desk: Any) -> None:
    desk.mine(1)
    contract = "0x" + "77" * 20
    desk.faucet.call("anvil_setCode", contract, "0x00")
    with pytest.raises(Conflict, match="has code"):
        await arrived(desk, "ETH", destination=contract)
    with pytest.raises(Conflict, match="sent something itself"):
        await arrived(desk, "ETH", destination=desk.faucet.address)


async def test_an_old_chain_says_nothing_of_the_time_since(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.mine(1)
    monkeypatch.setattr(arrivals.time, "time", lambda: (datetime.now(UTC) + HOUR).timestamp())
    with pytest.raises(RpcUnavailable, match="s old"):
        await arrived(desk)


async def test_an_endpoint_that_looks_through_few_blocks_is_asked_for_few(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await minted(desk, DESTINATION.lower())
    desk.mine(700)
    rpc = desk.chains[CHAIN]
    real, spans = rpc.ask_all, []

    async def picky(method: str, *params: Any) -> Any:
        if method == "eth_getLogs":
            span = int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1
            spans.append(span)
            if span > 150:
                raise RpcRefused("node", "block range is too wide")
        return await real(method, *params)

    monkeypatch.setattr(rpc, "ask_all", picky)
    assert await arrived(desk) == ("0.5",)
    assert min(spans) > 0
    assert len([span for span in spans if span <= 150]) > 4


@pytest.mark.parametrize(
    ("asked", "error"),
    [({"chain": "eip155:5"}, NotFound), ({"asset": "DOGE"}, InvalidInput), ({"destination": "rDest"}, InvalidInput)],
)
async def test_what_the_inventory_does_not_have_is_refused(desk: Any, asked: dict[str, str], error: Any) -> None:
    with pytest.raises(error):
        await arrived(desk, **asked)
