"""The lane against the stand-in exchange with its own ledger, and once with a real chain behind it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from qtg_dagster.domain.contract import ADOPTED_REF, ExecutionContext, HealthState, ResultStatus
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.host.node_tools import anvil_binary
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.cex import CexLane, register
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import WITHDRAW, WITHDRAWAL_HISTORY, ExchangeControl
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.sandbox.exchange.server import serving
from qtg_dagster.secret import Secret

CHAIN = "eip155:31337"
DESTINATION = "0x" + "ab" * 20
DEPOSIT_ADDRESS = "0x" + "cd" * 20
NOWHERE = "http://127.0.0.1:9"
TOKEN = "control-token-of-the-test"
K = FaultKind


class Desk:
    """The lane, its executors and the stand-in's side door."""

    def __init__(self, lane: CexLane, executors: ExecutorRegistry, control: ExchangeControl) -> None:
        self.lane = lane
        self.control = control
        self._executors = executors

    def executor(self, role: str) -> Any:
        return self._executors.resolve(f"exec.cex.{role}")

    async def posts(self) -> int:
        return len(await self.control.requests(venue="venue_a", endpoint=WITHDRAW))

    async def executed(self) -> list[dict[str, Any]]:
        return await self.control.withdrawals("venue_a")


@pytest.fixture
def chain_url() -> Iterator[str]:
    """A chain of this test's own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(anvil_binary()), "--port", str(port), "--chain-id", "31337", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
async def open_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Awaitable[Desk]]]:
    """Start the stand-in over a chain and register the lane at it."""
    from contextlib import AsyncExitStack

    from eth_account import Account

    monkeypatch.setenv("DESK_KEY", "key-of-the-desk")
    monkeypatch.setenv("DESK_SECRET", "secret-of-the-desk")
    wallet = Account.create()
    key_file = tmp_path / "hot.key"
    key_file.write_text(wallet.key.hex())
    key_file.chmod(0o600)
    async with AsyncExitStack() as stack:

        async def start(rpc_url: str = NOWHERE) -> Desk:
            if rpc_url != NOWHERE:
                await rpc(rpc_url, "anvil_setBalance", wallet.address, hex(10**21))
            running = await stack.enter_async_context(serving(_exchange(tmp_path, key_file, rpc_url)))
            executors = ExecutorRegistry()
            lane = register(executors, _inventory(f"{running.address}/venue_a"), timeout_seconds=1)
            control = await stack.enter_async_context(ExchangeControl(running.address, Secret(TOKEN)))
            stack.push_async_callback(lane.close)
            return Desk(lane, executors, control)

        yield start


def _exchange(home: Path, key_file: Path, rpc_url: str) -> ExchangeConfig:
    network = {"withdraw_fee": "0.001", "withdraw_min": "0.01", "withdraw_step": "0.00001"}
    coin = {"decimals": 18, "networks": {"ETH": {**network, "deposit_address": DEPOSIT_ADDRESS}}}
    venue = {
        "api_key": "key-of-the-desk",
        "api_secret": "secret-of-the-desk",
        "hot_wallet_key_file": key_file,
        "coins": {"ETH": coin},
        "initial_balances": {"ETH": "100"},
    }
    chain = {"rpc_url": rpc_url, "chain_id": 31337, "poll_seconds": 0.02}
    fields = {"ledger": home / "ledger.sqlite", "control_token": TOKEN, "chain": chain, "venues": {"venue_a": venue}}
    return ExchangeConfig.model_validate(fields)


def _inventory(base_url: str) -> Inventory:
    return Inventory.model_validate(
        {
            "assets": {"ETH": {"symbol": "ETH", "decimals": 18}},
            "chains": {CHAIN: {"name": "Local", "rpc_urls": [NOWHERE], "native_asset": "ETH"}},
            "venues": {
                "venue_a": {
                    "wire": "binance",
                    "base_url": base_url,
                    "api_key": {"env": "DESK_KEY"},
                    "api_secret": {"env": "DESK_SECRET"},
                    "assets": {"ETH": "ETH"},
                    "networks": {CHAIN: "ETH"},
                }
            },
        }
    )


async def rpc(url: str, method: str, *parameters: Any) -> Any:
    """One JSON-RPC call, once the node listens."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(parameters)}
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(500):
            try:
                answer = (await client.post(url, json=body)).json()
            except httpx.TransportError:
                await asyncio.sleep(0.01)
                continue
            assert "error" not in answer, answer
            return answer["result"]
    raise AssertionError(f"{url} never listened")


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    """Look until the answer is COMPLETED; gives the answer."""
    answer = None
    for _ in range(600):
        answer = await look()
        if answer.status is ResultStatus.COMPLETED:
            return answer
        assert answer.status is ResultStatus.OBSERVING, answer
        await asyncio.sleep(0.02)
    raise AssertionError(f"never completed: {answer}")


@pytest.fixture
def order(work_order: Callable[..., ExecutionContext]) -> Callable[..., ExecutionContext]:
    def make(context: dict[str, Any] | None = None, **config: Any) -> ExecutionContext:
        return work_order(context, **{"asset": "ETH", "chain": CHAIN, "amount": "1.5", **config})

    return make


async def test_the_stand_in_passes_preflight_and_accepts(open_desk: Any, order: Any) -> None:
    desk = await open_desk()
    action = desk.executor("withdrawal_action")
    assert await action.preflight(order()) is None
    prepared = await action.prepare(order())
    accepted = await action.submit(order(), prepared)
    seen = await action.observe(order({"prepared": prepared}))
    assert accepted.status is ResultStatus.ACCEPTED
    assert seen.status is ResultStatus.COMPLETED
    assert seen.provider_refs == accepted.provider_refs
    assert (await action.health()).health_state is HealthState.HEALTHY


@pytest.mark.parametrize(
    ("kind", "details"),
    [
        (K.LOSE_REPLY_AFTER_EXECUTION, {}),
        (K.LOSE_REPLY_BEFORE_EXECUTION, {}),
        (K.EXECUTE_THEN_500, {}),
        (K.EXECUTE_THEN_500, {"executes": False}),
        (K.HTTP_524_HTML, {}),
        (K.HTTP_524_HTML, {"executes": False}),
        (K.OK_HTML_200, {}),
        (K.EMPTY_200, {}),
        (K.TRUNCATED_BODY, {}),
        (K.BAD_GZIP, {}),
        (K.REDIRECT_307, {}),
        (K.REDIRECT_307, {"executes": True}),
        (K.DELAY_SECONDS, {"seconds": 1.3}),
        (K.DELAY_EXECUTION, {"seconds": 1.3}),
        (K.LATE_EXECUTION, {"seconds": 0.2}),
        (K.REPLY, {"body": '{"code":"0","msg":"","data":[]}', "executes": True}),
        (K.REPLY, {"status": 400, "body": '{"code":-1001,"msg":"internal"}', "executes": True}),
        (K.REPLY, {"status": 204, "executes": True}),
    ],
)
async def test_a_broken_submit_is_unknown_and_recovered_by_the_ledgers_truth(
    kind: FaultKind, details: dict[str, Any], open_desk: Any, order: Any
) -> None:
    desk = await open_desk()
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await desk.control.order(kind, venue="venue_a", **details)

    submitted = await action.submit(order(), prepared)
    if "DELAY" in kind.name or "LATE" in kind.name:
        await _wait_until_executed(desk)
    recovered = await action.recover(order({"prepared": prepared}))

    executed = await desk.executed()
    assert submitted.status is ResultStatus.UNKNOWN
    assert await desk.posts() == 1
    if executed:
        assert recovered.status is ResultStatus.COMPLETED
        assert recovered.provider_refs["exchange_withdrawal_id"] == executed[0]["id"]
    else:
        assert recovered.status is ResultStatus.UNKNOWN


async def _wait_until_executed(desk: Desk) -> None:
    for _ in range(500):
        if await desk.executed():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the stand-in never executed it")


async def test_a_lagging_history_is_no_evidence(open_desk: Any, order: Any) -> None:
    desk = await open_desk()
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await action.submit(order(), prepared)
    empty = {"kind": K.REPLY, "venue": "venue_a", "endpoint": WITHDRAWAL_HISTORY, "body": "[]", "times": 2}
    await desk.control.order(**empty)
    looks = [await action.observe(order({"prepared": prepared})) for _ in range(3)]
    assert [look.status for look in looks] == [
        ResultStatus.OBSERVING,
        ResultStatus.OBSERVING,
        ResultStatus.COMPLETED,
    ]


async def test_too_much_is_refused_by_the_venue_itself(open_desk: Any, order: Any) -> None:
    desk = await open_desk()
    action = desk.executor("withdrawal_action")
    context = order(amount="101")
    assert (await action.preflight(context)).status is ResultStatus.REJECTED
    prepared = await action.prepare(context)
    submitted = await action.submit(context, prepared)
    assert (submitted.status, submitted.error_code) == (ResultStatus.UNKNOWN, "-4026")  # to be confirmed
    assert await desk.executed() == []


async def test_money_goes_out_and_comes_back(open_desk: Any, order: Any, chain_url: str) -> None:
    desk = await open_desk(chain_url)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    accepted = await action.submit(order(), prepared)
    config = {"amount": None, "destination": None}
    following = order(
        **config,
        withdrawal_id=accepted.provider_refs["exchange_withdrawal_id"],
        client_id=accepted.provider_refs["withdrawal_client_id"],
    )
    paid = await until(lambda: desk.executor("withdrawal_observe").observe(following))
    assert paid.provider_refs["withdrawal_amount"] == "1.499"
    assert paid.provider_refs["withdrawal_fee"] == "0.001"
    assert int(await rpc(chain_url, "eth_getBalance", DESTINATION, "latest"), 16) == 1_499 * 10**15
    receipt = await rpc(chain_url, "eth_getTransactionReceipt", paid.provider_refs["tx_hash"])
    assert receipt["status"] == "0x1"

    sender = (await rpc(chain_url, "eth_accounts"))[0]
    sent = {"from": sender, "to": DEPOSIT_ADDRESS, "value": hex(2 * 10**18)}
    tx_hash = await rpc(chain_url, "eth_sendTransaction", sent)
    waiting = order(**config, tx_hash=tx_hash, address=DEPOSIT_ADDRESS)
    credited = await until(lambda: desk.executor("deposit_observe").observe(waiting))
    assert credited.provider_refs["credited_amount"] == "2"

    (fetcher,) = desk.lane.balance_fetchers
    reading, funding = await fetcher.fetch()
    assert (funding.wallet, funding.free, funding.complete) == ("funding", "0", True)
    books = (await desk.control.balances())["venue_a"]["ETH"]
    assert reading.free == books["free"] == "100.5"


async def by_hand(desk: Desk, order: Any, **config: Any) -> dict[str, Any]:
    """A withdrawal that other software asked for; its row in the venue's own books."""
    other = order({"idempotency_key": "of-the-other-software"}, **config)
    action = desk.executor("withdrawal_action")
    assert (await action.submit(other, await action.prepare(other))).status is ResultStatus.ACCEPTED
    return (await desk.executed())[-1]


async def test_a_withdrawal_of_other_software_is_adopted_and_followed(open_desk: Any, order: Any) -> None:
    desk = await open_desk()
    action = desk.executor("withdrawal_action")
    made = await by_hand(desk, order)
    adopted = await action.adopt(order(), made["id"])
    assert adopted.status is ResultStatus.ACCEPTED, adopted
    assert adopted.provider_refs["exchange_withdrawal_id"] == made["id"]
    assert adopted.provider_refs["withdrawal_client_id"] == made["order_id"]
    refs = {**adopted.provider_refs, ADOPTED_REF: made["id"]}
    for look in (action.observe, action.recover):
        seen = await look(order({"node_refs": refs}))
        assert seen.status is ResultStatus.COMPLETED
        assert seen.provider_refs == adopted.provider_refs
    assert await desk.posts() == 1


@pytest.mark.parametrize(
    ("config", "differs"), [({"amount": "1.6"}, "amount"), ({"destination": "0x" + "ee" * 20}, "address")]
)
async def test_another_withdrawal_is_refused_by_what_differs(
    config: dict[str, Any], differs: str, open_desk: Any, order: Any
) -> None:
    desk = await open_desk()
    made = await by_hand(desk, order, **config)
    refused = await desk.executor("withdrawal_action").adopt(order(), made["id"])
    assert refused.status is ResultStatus.REJECTED
    assert differs in refused.error_message


async def test_a_row_that_hides_its_destination_where_rows_have_one_is_not_adopted(open_desk: Any, order: Any) -> None:
    desk = await open_desk()
    made = await by_hand(desk, order)
    await desk.control.show_instead("venue_a", made["id"], address="")
    refused = await desk.executor("withdrawal_action").adopt(order(), made["id"])
    assert (refused.status, refused.error_code) == (ResultStatus.REJECTED, "NO_ADDRESS")


async def test_what_is_not_on_record_is_not_adopted(open_desk: Any, order: Any) -> None:
    desk = await open_desk()
    action = desk.executor("withdrawal_action")
    assert (await action.adopt(order(), "nothing")).error_code == "NOT_ONE_ON_RECORD"
    await desk.control.order(K.REPLY, venue="venue_a", endpoint=WITHDRAWAL_HISTORY, body="<html>", times=9)
    assert (await action.adopt(order(), "nothing")).status is ResultStatus.UNKNOWN


async def test_beside_a_lost_request_other_softwares_withdrawal_is_not_adopted(open_desk: Any, order: Any) -> None:
    desk = await open_desk()
    action = desk.executor("withdrawal_action")
    made = await by_hand(desk, order)
    lost = order({"prepared": await action.prepare(order())})
    refused = await action.adopt(lost, made["id"])
    assert (refused.status, refused.error_code) == (ResultStatus.REJECTED, "OWN_ATTEMPT_OPEN")


async def test_a_withdrawal_is_adopted_by_its_transaction(open_desk: Any, order: Any, chain_url: str) -> None:
    desk = await open_desk(chain_url)
    made = await by_hand(desk, order)
    refs = order(amount=None, destination=None, withdrawal_id=made["id"], client_id=made["order_id"])
    paid = await until(lambda: desk.executor("withdrawal_observe").observe(refs))
    adopted = await desk.executor("withdrawal_action").adopt(order(), paid.provider_refs["tx_hash"])
    assert adopted.status is ResultStatus.ACCEPTED
    assert adopted.provider_refs["exchange_withdrawal_id"] == made["id"]
