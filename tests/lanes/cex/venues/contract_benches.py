"""Benches of the three executors at any venue that the stand-in speaks: the kit turns the venue, and the way to it."""

# ruff: noqa: ARG002 - the protocol names what some benches do not read
from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from decimal import Decimal
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from qtg_dagster.domain.contract import ExecutionContext, PreparedAction
from qtg_dagster.executors.conformance import Declared, Knob
from qtg_dagster.sandbox.exchange.control import DEPOSIT_HISTORY, WITHDRAWAL_HISTORY
from qtg_dagster.sandbox.exchange.faults import FaultKind
from tests.executors.conformance.memory import order
from tests.lanes.cex.venues.bench import API_KEY, DESTINATION, Bench, Lost
from tests.lanes.cex.venues.book_changes import arrived, pay_out

_LOST = {
    Knob.LOSE_REPLY: FaultKind.LOSE_REPLY_AFTER_EXECUTION,
    Knob.LOSE_REQUEST: FaultKind.LOSE_REPLY_BEFORE_EXECUTION,
}
_SHOWN = {Knob.SETTLE: "completed", Knob.FAIL: "failure"}


class Line:
    """The way to the stand-in, which can be cut or fall silent."""

    def __init__(self) -> None:
        self.port, self.target = 0, 0
        self.speaks = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def mend(self) -> None:
        self.speaks.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.speaks.wait()
        with suppress(ConnectionError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


class ActionBench:
    """Orders differ in their amounts: the venue's own book shows by them which was executed, without any id of ours."""

    knobs = frozenset(Knob)
    role = "withdrawal_action"

    def __init__(self, bench: Bench, desk: Any, line: Line) -> None:
        self.bench, self.desk, self.line = bench, desk, line
        self.executor = desk.executor(self.role)
        self.canaries = tuple(text for text in (bench.secret, bench.passphrase, API_KEY) if text)
        refs = ("withdrawal_prepared_at", "withdrawal_expires_at")
        self.declared = Declared(
            varies=frozenset({"expires_at", *(f"provider_refs.{name}" for name in refs)}),
            done_when_on_record=True,
            hands_over=bench.lost is Lost.HANDED_OVER,
        )
        self._amounts: dict[str, Decimal] = {}
        self._numbers = itertools.count(1)

    async def context(self) -> ExecutionContext:
        number = next(self._numbers)
        amount = Decimal(1) + Decimal(number) / 1000
        terms = {"venue": "venue_a", "asset": "ETH", "chain": "eip155:31337", "destination": DESTINATION}
        limits = {"destination_allowlist": [DESTINATION]}
        made = order(number, {**terms, "amount": f"{amount:f}"}, action_type="cex_withdrawal", risk_controls=limits)
        self._amounts[made.idempotency_key] = amount
        return made

    async def effects(self, idempotency_key: str | None) -> int:
        return len(await self._made(idempotency_key))

    async def _made(self, idempotency_key: str | None) -> list[dict[str, Any]]:
        driver = import_module(f"tests.sandbox.exchange.dialects.drive_{self.bench.wire}").DRIVER
        from_amount = driver.amount_includes_fee
        rows = await self.desk.executed()
        wanted = None if idempotency_key is None else self._amounts.get(idempotency_key)
        return [
            row
            for row in rows
            if idempotency_key is None
            or Decimal(row["net"]) + (Decimal(row["fee"]) if from_amount else Decimal(0)) == wanted
        ]

    async def sign(self, context: ExecutionContext, prepared: PreparedAction) -> PreparedAction:
        raise AssertionError("venues take no signature")

    def session(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def turn(self, knob: Knob, context: ExecutionContext) -> None:
        if knob is Knob.AWAY:
            await self.line.cut()
        elif knob is Knob.SILENT:
            self.line.speaks.clear()
        elif knob in _LOST:
            await self.desk.control.order(_LOST[knob], venue="venue_a")
        else:
            (row,) = await self._made(context.idempotency_key)
            if knob is Knob.ODD_STATUS:
                await self.desk.control.show_instead("venue_a", row["id"], **self.bench.odd_status)
            else:
                await self.desk.control.show_status("venue_a", WITHDRAWAL_HISTORY, row["id"], _SHOWN[knob])

    async def calm(self) -> None:
        await self.line.mend()
        await self.desk.control.clear_faults()


class WithdrawalBench(ActionBench):
    """Each order follows a withdrawal that somebody asked for before."""

    role = "withdrawal_observe"

    def __init__(self, bench: Bench, desk: Any, line: Line) -> None:
        super().__init__(bench, desk, line)
        self.declared = Declared(acts=False)
        self._before: dict[str, str] = {}

    async def context(self) -> ExecutionContext:
        asked, action = await super().context(), self.desk.executor("withdrawal_action")
        refs = (await action.submit(asked, await action.prepare(asked))).provider_refs
        self._before[asked.idempotency_key] = refs["exchange_withdrawal_id"]
        ids = {"withdrawal_id": refs["exchange_withdrawal_id"], "client_id": refs["withdrawal_client_id"]}
        config = {"venue": "venue_a", "asset": "ETH", "chain": "eip155:31337", **ids}
        return asked.model_copy(update={"node_config": config, "action_type": "cex_withdrawal_status"})

    async def effects(self, idempotency_key: str | None) -> int:
        """Withdrawals beyond those that are followed: one that only looks makes none."""
        return sum(row["id"] not in self._before.values() for row in await self._made(idempotency_key))

    async def turn(self, knob: Knob, context: ExecutionContext) -> None:
        if knob is Knob.SETTLE:
            pay_out(self.desk.exchange, self._before[context.idempotency_key])
        await super().turn(knob, context)


class DepositBench(ActionBench):
    """Each order waits for a transaction that the venue has seen and not yet credited."""

    role = "deposit_observe"

    def __init__(self, bench: Bench, desk: Any, line: Line) -> None:
        super().__init__(bench, desk, line)
        self.declared = Declared(acts=False)
        self.knobs = frozenset(Knob) - (frozenset() if bench.lost_deposit else {Knob.FAIL})
        self._rows: dict[str, str] = {}

    async def context(self) -> ExecutionContext:
        number = next(self._numbers)
        (row,) = await arrived(self.desk, "pending")
        seen = {"tx_hash": row["tx_hash"], "address": row["address"]}
        config = {"venue": "venue_a", "asset": "ETH", "chain": "eip155:31337", **seen}
        made = order(number, config, action_type="cex_deposit_status")
        self._rows[made.idempotency_key] = row["id"]
        return made

    async def effects(self, idempotency_key: str | None) -> int:
        return len(await self.desk.executed())

    async def turn(self, knob: Knob, context: ExecutionContext) -> None:
        shown = {Knob.SETTLE: "success", Knob.FAIL: self.bench.lost_deposit}
        row = self._rows[context.idempotency_key]
        if knob in shown:
            await self.desk.control.show_status("venue_a", DEPOSIT_HISTORY, row, shown[knob])
        elif knob is Knob.ODD_STATUS:
            await self.desk.control.show_instead("venue_a", row, **self.bench.odd_status)
        else:
            await super().turn(knob, context)


BENCHES: tuple[type[ActionBench], ...] = (ActionBench, WithdrawalBench, DepositBench)


@asynccontextmanager
async def opened(kind: type[ActionBench], bench: Bench, open_desk: Any) -> AsyncIterator[ActionBench]:
    """A bench of that kind at the venue, with a line of its own to it."""
    line = Line()
    await line.mend()
    # Long enough for a busy machine: a venue that is only slow must not look silent.
    desk = await open_desk(bench, patience=2, base_url=f"http://127.0.0.1:{line.port}/venue_a")
    line.target = urlsplit(desk.address).port or 0
    made = kind(bench, desk, line)
    try:
        yield made
    finally:
        await made.calm()
        await desk.lane.close()
        await line.cut()
