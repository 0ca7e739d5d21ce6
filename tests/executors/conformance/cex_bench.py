"""Benches of the exchange executors over the stand-in venue of their tests."""

# ruff: noqa: ARG002 - the protocol names what some benches do not read
from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

import pytest

from qtg_dagster.domain.contract import ExecutionContext, PreparedAction
from qtg_dagster.executors.conformance import Declared, Knob
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.cex import CexLane, register
from qtg_dagster.lanes.cex.accounts import HEALTH_SECONDS
from tests.executors.conformance.memory import order
from tests.lanes.cex.conftest import API_KEY, API_SECRET, CHAIN, DESTINATION, NETWORK, StandIn

_ASSET = {"venue": "venue_a", "asset": "USDC", "chain": CHAIN}
_WITHDRAWAL_STATES = {Knob.SETTLE: 6, Knob.FAIL: 5, Knob.ODD_STATUS: 99}
_DEPOSIT_STATES = {Knob.SETTLE: 1, Knob.FAIL: 2, Knob.ODD_STATUS: 42}


class CexBench:
    """One venue; what it has on record of an order is found by the order's idempotency key."""

    knobs = frozenset(Knob)
    canaries = (API_SECRET, API_KEY)
    declared = Declared(acts=False)

    def __init__(self, venue: StandIn, lane: CexLane, executor: Any) -> None:
        self.venue, self.executor = venue, executor
        self._client_id = lane.accounts.account("venue_a").venue.client_id
        self._server: asyncio.Server | None = None
        self._speaks = asyncio.Event()
        self._numbers = itertools.count(1)
        self._seeded: set[str] = set()

    async def effects(self, idempotency_key: str | None) -> int:
        made = [row for row in self.venue.withdrawals if row["id"] not in self._seeded]
        wanted = None if idempotency_key is None else self._client_id(idempotency_key)
        return sum(wanted in (None, row["withdrawOrderId"]) for row in made)

    async def sign(self, context: ExecutionContext, prepared: PreparedAction) -> PreparedAction:
        raise AssertionError("venues take no signature")

    def session(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def turn(self, knob: Knob, context: ExecutionContext) -> None:
        if knob is Knob.AWAY:
            await self.close()
        elif knob is Knob.SILENT:
            self._speaks.clear()
        elif knob in (Knob.LOSE_REPLY, Knob.LOSE_REQUEST):
            self.venue.on_submit(executes=knob is Knob.LOSE_REPLY, no_bytes=True)
        else:
            self.show(knob, context.idempotency_key)

    async def calm(self) -> None:
        self.venue.behave()
        self._speaks.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.venue.port)
            self.venue.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def show(self, knob: Knob, idempotency_key: str) -> None:
        """Show a withdrawal of this order so from now on."""
        row = self.row_of(idempotency_key)
        row["status"] = _WITHDRAWAL_STATES[knob]
        if knob is Knob.SETTLE:
            row["txId"] = f"0x{idempotency_key:0>64}"

    def row_of(self, idempotency_key: str) -> dict[str, Any]:
        client_id = self._client_id(idempotency_key)
        (row,) = [row for row in self.venue.withdrawals if row["withdrawOrderId"] == client_id]
        return row

    def seed(self, idempotency_key: str) -> dict[str, Any]:
        """A withdrawal under way that somebody asked for before."""
        row = {"id": f"s{len(self._seeded):031d}", "withdrawOrderId": self._client_id(idempotency_key)}
        row |= {"coin": "USDC", "network": "ETH", "amount": "11.5", "transactionFee": "1", "status": 4}
        row["applyTime"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        self._seeded.add(row["id"])
        self.venue.withdrawals.append(row)
        return row

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._speaks.wait()
        await self.venue.serve(reader, writer)


class WithdrawalActionBench(CexBench):
    """The venue's record is all that the action waits for: what its status means is for the next node."""

    role = "withdrawal_action"
    declared = Declared(
        varies=frozenset({"expires_at", "provider_refs.withdrawal_prepared_at", "provider_refs.withdrawal_expires_at"}),
        done_when_on_record=True,
    )

    async def context(self) -> ExecutionContext:
        config = {**_ASSET, "amount": "12.5", "destination": DESTINATION}
        limits = {"destination_allowlist": [DESTINATION]}
        return order(next(self._numbers), config, action_type="cex_withdrawal", risk_controls=limits)


class WithdrawalObserveBench(CexBench):
    role = "withdrawal_observe"

    async def context(self) -> ExecutionContext:
        plain = order(next(self._numbers), {}, action_type="cex_withdrawal_status")
        row = self.seed(plain.idempotency_key)
        config = {**_ASSET, "withdrawal_id": row["id"], "client_id": row["withdrawOrderId"]}
        return plain.model_copy(update={"node_config": config})


class DepositObserveBench(CexBench):
    role = "deposit_observe"

    async def context(self) -> ExecutionContext:
        number = next(self._numbers)
        config = {**_ASSET, "tx_hash": f"0x{number:064x}", "address": DESTINATION}
        row = {"id": f"d{number}", "coin": "USDC", "network": "ETH", "amount": "11.5", "status": 0}
        self.venue.deposits.append({**row, "txId": config["tx_hash"], "address": DESTINATION})
        return order(number, config, action_type="cex_deposit_status")

    def row_of(self, idempotency_key: str) -> dict[str, Any]:
        (row,) = [row for row in self.venue.deposits if row["txId"] == f"0x{idempotency_key:0>64}"]
        return row

    def show(self, knob: Knob, idempotency_key: str) -> None:
        self.row_of(idempotency_key)["status"] = _DEPOSIT_STATES[knob]


CEX_BENCHES: dict[str, type[Any]] = {
    f"exec.cex.{bench.role}": bench for bench in (WithdrawalActionBench, WithdrawalObserveBench, DepositObserveBench)
}


@asynccontextmanager
async def open_cex_bench(key: str, health_seconds: float | None = None) -> AsyncIterator[CexBench]:
    """The executor under its key, as the lane registers it but for `health_seconds`, at a venue of its own."""
    balance = {"asset": "USDC", "free": "1000", "locked": "5", "freeze": "0", "withdrawing": "0"}
    venue = StandIn(networks=[dict(NETWORK)], balances=[balance])
    listener = await asyncio.start_server(venue.serve, "127.0.0.1", 0)
    venue.port = listener.sockets[0].getsockname()[1]
    listener.close()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("VENUE_A_KEY", API_KEY)
        environment.setenv("VENUE_A_SECRET", API_SECRET)
        executors = ExecutorRegistry()
        lane = register(executors, inventory_of(venue), health_seconds=health_seconds or HEALTH_SECONDS)
        bench: CexBench = CEX_BENCHES[key](venue, lane, executors.resolve(key))
        await bench.calm()
        try:
            yield bench
        finally:
            await lane.close()
            await bench.calm()
            await bench.close()


def inventory_of(*venues: StandIn) -> Inventory:
    """An inventory of these venues, the first of which is venue_a."""
    return Inventory.model_validate(inventory_entries(*venues))


def inventory_entries(*venues: StandIn) -> dict[str, Any]:
    """As it would stand in the inventory's file."""
    entries = {
        f"venue_{letter}": {
            "wire": "binance",
            "base_url": venue.base_url,
            "api_key": {"env": "VENUE_A_KEY"},
            "api_secret": {"env": "VENUE_A_SECRET"},
            "assets": {"USDC": "USDC"},
            "networks": {CHAIN: "ETH"},
        }
        for letter, venue in zip("abc", venues, strict=False)
    }
    chain = {"name": "Ethereum", "rpc_urls": ["http://127.0.0.1:1"], "native_asset": "ETH"}
    assets = {"USDC": {"symbol": "USDC", "decimals": 8}, "ETH": {"symbol": "ETH", "decimals": 18}}
    return {"assets": assets, "chains": {CHAIN: chain}, "venues": entries}
