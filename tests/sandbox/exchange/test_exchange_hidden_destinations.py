"""Lost withdrawals at venues that never say where money went, told by the chain that really paid them out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes import cex, evm
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.sandbox.exchange.server import serving
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus
from tests.sandbox.exchange.conftest import API_KEY, API_SECRET

CHAIN = "eip155:31337"
OURS, ELSEWHERE = "0x" + "ab" * 20, "0x" + "ef" * 20
FINAL = 5


class NoNonces:
    """Nothing is sent here."""

    async def reserve(self, *, chain_nonce: int, **_: Any) -> int:
        return chain_nonce


class Desk:
    """The lane at a venue that pays out on the test's own chain."""

    def __init__(self, action: Any, control: ExchangeControl, chain: Any, eventually: Any) -> None:
        self.action, self.control, self.chain, self._eventually = action, control, chain, eventually

    async def withdraw(self, context: ExecutionContext, fault: FaultKind | None = None) -> PreparedAction:
        prepared: PreparedAction = await self.action.prepare(context)
        if fault is not None:
            await self.control.order(fault, venue="venue_a")
        submitted = await self.action.submit(context, prepared)
        assert submitted.status is (ResultStatus.ACCEPTED if fault is None else ResultStatus.UNKNOWN), submitted
        return prepared

    async def paid(self, count: int) -> list[dict[str, Any]]:
        """The venue's own book once it has paid out all of it."""

        async def book() -> list[dict[str, Any]]:
            rows = await self.control.withdrawals("venue_a")
            done = len(rows) == count and all(row["status"] == WithdrawalStatus.COMPLETED for row in rows)
            return rows if done else []

        rows: list[dict[str, Any]] = await self._eventually(book)
        return rows

    async def recover(self, context: ExecutionContext, prepared: PreparedAction) -> ExecutionResult:
        answer: ExecutionResult = await self.action.recover(context.model_copy(update={"prepared": prepared}))
        return answer


@pytest.fixture
async def open_desk(
    make_config: Callable[..., ExchangeConfig],
    chain: Any,
    hot_wallet: Any,
    open_control: Callable[[str], ExchangeControl],
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Callable[[str], Awaitable[Desk]]]:
    monkeypatch.setenv("DESK_KEY", API_KEY)
    monkeypatch.setenv("DESK_SECRET", API_SECRET)
    async with AsyncExitStack() as stack:

        async def start(wire: str) -> Desk:
            chain.fund(hot_wallet[1])
            token = chain.deploy_token(hot_wallet[1], 10_000 * 10**6)
            saved = [
                {"name": f"{coin} {address}", "coin": coin, "network": "ETH", "address": address}
                for coin in ("ETH", "USDC")
                for address in (OURS, ELSEWHERE)
            ]
            config = make_config(chain.url, token=token, wire=wire, address_book=saved)
            running = await stack.enter_async_context(serving(config))
            inventory = Inventory.model_validate(_inventory(wire, f"{running.address}/venue_a", chain.url, token))
            executors = ExecutorRegistry()
            chains = evm.register(executors, inventory, NoNonces())
            stack.push_async_callback(chains.close)
            exchanges = cex.register(executors, inventory, payments=chains.payments)
            stack.push_async_callback(exchanges.close)
            action = executors.resolve("exec.cex.withdrawal_action")
            return Desk(action, open_control(running.address), chain, eventually)

        yield start


def _inventory(wire: str, base_url: str, rpc_url: str, token: str) -> dict[str, Any]:
    venue = {
        "wire": wire,
        "base_url": base_url,
        "api_key": {"env": "DESK_KEY"},
        "api_secret": {"env": "DESK_SECRET"},
        "assets": {"ETH": "ETH", "USDC": "USDC"},
        "networks": {CHAIN: "ETH"},
    }
    chain = {"name": "Local", "rpc_urls": [rpc_url], "native_asset": "ETH", "tokens": {"USDC": token}}
    assets = {"ETH": {"symbol": "ETH", "decimals": 18}, "USDC": {"symbol": "USDC", "decimals": 6}}
    return {
        "assets": assets,
        "chains": {CHAIN: {**chain, "confirmations": 2, "finality_confirmations": FINAL}},
        "venues": {"venue_a": venue},
    }


def order(asset: str, destination: str = OURS, key: str = "n1:1") -> ExecutionContext:
    return ExecutionContext(
        request_id="r1",
        request_node_id="n1",
        compiled_plan_hash="h",
        template_key="t",
        template_version=1,
        node_key="withdraw",
        node_kind="action",
        action_type="cex_withdrawal",
        attempt_no=1,
        intent={},
        input_params={},
        resolved_bindings={},
        risk_controls={},
        node_config={
            "venue": "venue_a",
            "asset": asset,
            "chain": CHAIN,
            "amount": "12.5",
            "destination": destination,
        },
        provider_context={},
        idempotency_key=key,
    )


@pytest.mark.parametrize(("wire", "asset"), [("upbit", "ETH"), ("upbit", "USDC"), ("bithumb", "USDC")])
async def test_a_lost_one_is_found_once_the_chain_shows_for_good_that_it_paid_our_destination(
    wire: str, asset: str, open_desk: Callable[[str], Awaitable[Desk]]
) -> None:
    desk = await open_desk(wire)
    prepared = await desk.withdraw(order(asset), FaultKind.LOSE_REPLY_AFTER_EXECUTION)
    (made,) = await desk.paid(1)
    early = await desk.recover(order(asset), prepared)
    assert (early.status, early.error_code) == (ResultStatus.UNKNOWN, "UNPROVEN_ON_RECORD"), early
    desk.chain.mine(FINAL)
    found = await desk.recover(order(asset), prepared)
    assert (found.status, found.provider_refs["exchange_withdrawal_id"]) == (ResultStatus.COMPLETED, made["id"])
    assert found.evidence["on_chain"] == [f"{made['id']}: transaction {made['tx_hash']} on {CHAIN} paid {OURS}"]


async def test_a_strangers_equal_one_is_never_ours_and_ours_is_told_beside_it(
    open_desk: Callable[[str], Awaitable[Desk]],
) -> None:
    desk = await open_desk("upbit")
    prepared = await desk.withdraw(order("USDC"), FaultKind.LOSE_REPLY_BEFORE_EXECUTION)
    await desk.withdraw(order("USDC", ELSEWHERE, "stranger"))
    (theirs,) = await desk.paid(1)
    early = await desk.recover(order("USDC"), prepared)
    assert (early.status, early.error_code) == (ResultStatus.UNKNOWN, "UNPROVEN_ON_RECORD")
    desk.chain.mine(FINAL)
    for _ in range(4):  # however often one looks: no end of a request's life is known there
        alone = await desk.recover(order("USDC"), prepared)
        assert (alone.status, alone.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD_YET"), alone
    refused = await desk.action.adopt(order("USDC"), theirs["id"])
    assert (refused.status, refused.error_code) == (ResultStatus.REJECTED, "OTHER_ON_RECORD")
    assert f"paid {ELSEWHERE}" in refused.error_message

    late = await desk.withdraw(order("USDC", key="n1:2"), FaultKind.LOSE_REPLY_AFTER_EXECUTION)
    rows = await desk.paid(2)
    (ours,) = (row for row in rows if row["id"] != theirs["id"])
    desk.chain.mine(FINAL)
    found = await desk.recover(order("USDC", key="n1:2"), late)
    assert (found.status, found.provider_refs["exchange_withdrawal_id"]) == (ResultStatus.COMPLETED, ours["id"])
    adopted = await desk.action.adopt(order("USDC"), ours["tx_hash"])
    assert adopted.status is ResultStatus.ACCEPTED
    assert adopted.evidence["destination"] == f"not on the record: the chain shows {OURS}"
