"""Making the sample movements, following them to their end, and judging the result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live

from qtg_dagster.composition import Platform
from qtg_dagster.domain.errors import Conflict, QtgError
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import approve_movement, complete_manual_node, create_movement
from qtg_dagster.sandbox.demo.owner import Owner
from qtg_dagster.sandbox.demo.scenario import APPROVER, MANUAL_NODE, OPERATOR, REQUESTER, SAMPLES, Sample
from qtg_dagster.sandbox.demo.sheet import Holdings, Line, compare, fees_paid, read_holdings
from qtg_dagster.sandbox.demo.show import movements_table, sheet_table
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.store.views import MovementView, read_movements, read_steps

DEADLINE_SECONDS = 180.0
HEALTH_ROUND_SECONDS = 90.0
_LOOK_SECONDS = 0.4
_USABLE = 1  # the exchange's deposit status
_ENDED = frozenset(
    {RequestState.COMPLETED, RequestState.FAILED, RequestState.MANUAL_INTERVENTION, RequestState.CANCELLED}
)


class DemoFailed(QtgError):
    """The sandbox did not come to the end that the demo promises."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """How the demo ended."""

    movements: tuple[MovementView, ...]
    lines: tuple[Line, ...]
    unknown_was_seen: bool
    withdrawals_executed: int
    owner_knows: bool

    @property
    def passed(self) -> bool:
        """All movements completed, their owner was told so in order, balances agree, UNKNOWN was seen, and the exchange
        paid each withdrawal once.
        """
        asked = sum(1 for sample in SAMPLES if sample.template_key.startswith("cex_"))
        return (
            all(movement.request_state is RequestState.COMPLETED for movement in self.movements)
            and all(line.agrees for line in self.lines)
            and self.unknown_was_seen
            and self.withdrawals_executed == asked
            and self.owner_knows
        )


class Demo:
    """One run of the demo on a running sandbox."""

    def __init__(self, platform: Platform, control: ExchangeControl, console: Console, owner: Owner) -> None:
        self._platform = platform
        self._control = control
        self._console = console
        self._owner = owner
        self._callback_url = ""
        self._samples: dict[str, Sample] = {}

    async def run(self) -> DemoResult:
        """Raises `DemoFailed` when the movements do not end in time."""
        async with self._owner.listening() as self._callback_url:
            return await self._run()

    async def _run(self) -> DemoResult:
        inventory = self._platform.settings.inventory
        await self._let_earlier_movements_end()
        before = await read_holdings(self._platform.balance_fetchers, inventory)
        withdrawals_before = len(await self._control.withdrawals("venue_a"))
        with Live(console=self._console, refresh_per_second=4, transient=not self._console.is_terminal) as live:
            await self._start_losing_one()
            await self._follow(live, self._reply_is_lost, "the lost reply")
            for sample in SAMPLES:
                if not sample.loses_reply:
                    await self._start(sample)
            await self._follow(live, self._all_ended, "the end of all movements")
        movements = await self._read()
        lines = await self._settled_lines(before, movements)
        if not self._console.is_terminal:
            self._console.print(movements_table(self._samples, movements))
        self._console.print(sheet_table(lines, fees_paid(movements, inventory)))
        owner_knows = await self._owner_knows()
        self._console.print(
            f"Callbacks: {self._owner.events} events told to the movements' owner, "
            f"{'each signature verified, all in order' if owner_knows else '[bold red]not all, or not in order[/]'}"
        )
        return DemoResult(
            movements=tuple(movements),
            lines=lines,
            unknown_was_seen=await self._unknown_was_seen(),
            withdrawals_executed=len(await self._control.withdrawals("venue_a")) - withdrawals_before,
            owner_knows=owner_knows,
        )

    async def _let_earlier_movements_end(self) -> None:
        """What an interrupted run left goes on by itself; balances are compared only when it has come to rest."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        said: set[str] = set()
        while unsettled := await self._unsettled():
            for line in sorted(unsettled - said):
                self._console.print(f"[yellow]An earlier movement ends first:[/] {line}")
            said |= unsettled
            if time.monotonic() > deadline:
                raise DemoFailed(f"earlier movements did not come to rest: {'; '.join(sorted(unsettled))}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _unsettled(self) -> set[str]:
        """Movements of this sandbox that still run, and transfers that the receiving exchange has yet to credit."""
        settings = self._platform.settings
        here = set(settings.inventory.venue("venue_b").deposit_addresses.values())
        async with self._platform.database.transaction() as transaction:
            movements = await read_movements(transaction, settings.network_class, most=1000)
        credited = {row["tx_hash"] for row in await self._control.deposits("venue_b") if row["status"] == _USABLE}
        found: set[str] = set()
        for movement in movements:
            if movement.intent.get("destination") not in here:
                continue
            if movement.request_state in (RequestState.APPROVED, RequestState.EXECUTING):
                found.add(f"{movement.request_id} is {movement.request_state}")
            for node in movement.nodes:
                tx_hash = node.provider_refs.get("tx_hash")
                if node.node_key == "transfer" and node.node_state is NodeState.COMPLETED and tx_hash not in credited:
                    found.add(f"venue_b has not credited {tx_hash}")
        return found

    async def _start_losing_one(self) -> None:
        """The next withdrawal is executed by the exchange, and its answer is lost."""
        await self._control.clear_faults()
        await self._control.order(FaultKind.LOSE_REPLY_AFTER_EXECUTION, venue="venue_a")
        for sample in SAMPLES:
            if sample.loses_reply:
                await self._start(sample)

    async def _start(self, sample: Sample) -> None:
        order = MovementOrder(
            template_key=sample.template_key,
            parameters={"amount": sample.amount},
            requested_by=REQUESTER,
            reason=f"demo: {sample.title}",
            callback_url=self._callback_url,
        )
        receipt = await create_movement(self._platform.engine, order)
        self._samples[receipt.request_id] = sample
        await self._approve(receipt.request_id)

    async def _approve(self, request_id: str) -> None:
        """Approve; while something it needs was last seen down, say so and wait for the next health round."""
        deadline = time.monotonic() + HEALTH_ROUND_SECONDS
        while True:
            try:
                await approve_movement(self._platform.engine, request_id, actor=APPROVER)
            except Conflict as refused:
                if time.monotonic() > deadline:
                    raise
                self._console.print(f"[yellow]{refused}[/]")
            else:
                return
            await asyncio.sleep(5)

    async def _read(self) -> list[MovementView]:
        async with self._platform.database.transaction() as transaction:
            found = await read_movements(
                transaction, self._platform.settings.network_class, request_ids=list(self._samples)
            )
        return sorted(found, key=lambda movement: movement.created_at)

    async def _follow(self, live: Live, ended: Callable[[Sequence[MovementView]], bool], awaited: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            movements = await self._read()
            if self._console.is_terminal:
                live.update(movements_table(self._samples, movements))
            await self._do_manual_steps(movements)
            if ended(movements):
                return
            if time.monotonic() > deadline:
                self._console.print(movements_table(self._samples, movements))
                raise DemoFailed(f"{awaited} did not come within {DEADLINE_SECONDS:.0f} s; see the logs of the drains")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _do_manual_steps(self, movements: Sequence[MovementView]) -> None:
        """Play the operator: a movement that waits for a person is seen to wait, then its step is done."""
        for movement in movements:
            if movement.request_state is RequestState.WAITING_MANUAL_ACTION:
                await complete_manual_node(
                    self._platform.engine,
                    movement.request_id,
                    MANUAL_NODE,
                    actor=OPERATOR,
                    note="asked the venue by phone: deposits are open",
                )

    @staticmethod
    def _reply_is_lost(movements: Sequence[MovementView]) -> bool:
        """The first withdrawal is UNKNOWN, or has been."""
        states = [movement.node("withdraw").node_state for movement in movements]
        return bool(states) and all(
            state in (NodeState.UNKNOWN, NodeState.SUBMITTED, NodeState.OBSERVING, NodeState.COMPLETED)
            for state in states
        )

    @staticmethod
    def _all_ended(movements: Sequence[MovementView]) -> bool:
        return all(movement.request_state in _ENDED for movement in movements)

    async def _settled_lines(self, before: Holdings, movements: list[MovementView]) -> tuple[Line, ...]:
        """The sheet, once the receiving exchange has credited the transfers that no node waits for."""
        inventory = self._platform.settings.inventory
        deadline = time.monotonic() + 60
        while True:
            after = await read_holdings(self._platform.balance_fetchers, inventory)
            lines = compare(before, after, movements, inventory)
            if all(line.agrees for line in lines) or time.monotonic() > deadline:
                return lines
            await asyncio.sleep(_LOOK_SECONDS)

    async def _owner_knows(self) -> bool:
        """Whether the owner comes to know of each movement's end, by nothing but callbacks."""
        deadline = time.monotonic() + 60
        while any(self._owner.last_state(each) != RequestState.COMPLETED for each in self._samples):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return self._owner.in_order() and self._owner.rejected == 0

    async def _unknown_was_seen(self) -> bool:
        for request_id, sample in self._samples.items():
            if sample.loses_reply:
                async with self._platform.database.transaction() as transaction:
                    steps = await read_steps(transaction, request_id)
                return any(step.to_state == NodeState.UNKNOWN for step in steps)
        return False
