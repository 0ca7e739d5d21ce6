"""A withdrawal that a venue never showed is asked for again under its id, where the venue takes an id once."""

from __future__ import annotations

from typing import Any

import pytest

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.lanes.cex.venue import Repeats
from qtg_dagster.sandbox.exchange.faults import FaultKind
from tests.lanes.cex.venues.bench import Bench, benches

IDEMPOTENT = [bench for bench in benches() if bench.venue.repeats is Repeats.IDEMPOTENT]
LONG_ENOUGH = (300, 300, 301)


class Looks:
    """Recover as the engine does, carrying refs from look to look."""

    def __init__(self, action: Any, order: Any, prepared: Any, clock: Any) -> None:
        self._action, self._order, self._prepared, self._clock = action, order, prepared, clock
        self.refs: dict[str, Any] = {}

    async def __call__(self, *pauses: float) -> ExecutionResult:
        for pause in pauses:
            self._clock.advance(pause)
            answer: ExecutionResult = await self._action.recover(
                self._order({"prepared": self._prepared, "node_refs": dict(self.refs)})
            )
            self.refs.update(answer.provider_refs)
        return answer


class NothingArrived:
    async def arrived(self, **_: Any) -> tuple[str, ...]:
        return ()


class Arrived:
    async def arrived(self, **_: Any) -> tuple[str, ...]:
        return ("1.5",)


@pytest.fixture
def lost(open_desk: Any, order: Any, clock: Any) -> Any:
    """A submit that met `fault`, and looks that come after it."""

    async def lose(bench: Bench, fault: FaultKind, witness: Any = None, **entry: Any) -> tuple[Any, Looks]:
        desk = await open_desk(bench, witness=witness or NothingArrived(), **{"resend_is_safe": True, **entry})
        action = desk.executor("withdrawal_action")
        prepared = await action.prepare(order())
        await desk.control.order(fault, venue="venue_a")
        assert (await action.submit(order(), prepared)).status is ResultStatus.UNKNOWN
        return desk, Looks(action, order, prepared, clock)

    return lose


@pytest.mark.parametrize("bench", IDEMPOTENT, ids=lambda bench: bench.wire)
async def test_a_request_that_was_lost_on_its_way_is_asked_for_again_and_found(bench: Bench, lost: Any) -> None:
    desk, looks = await lost(bench, FaultKind.LOSE_REPLY_BEFORE_EXECUTION)
    asked = await looks(*LONG_ENOUGH)
    assert (asked.status, asked.error_code) == (ResultStatus.UNKNOWN, "ASKED_AGAIN")
    found = await looks(0)
    (executed,) = await desk.executed()
    assert found.status is ResultStatus.COMPLETED
    assert found.provider_refs["exchange_withdrawal_id"] == executed["id"]


@pytest.mark.parametrize("bench", IDEMPOTENT, ids=lambda bench: bench.wire)
async def test_what_was_executed_and_hidden_is_not_asked_for_again_as_the_wallet_shows_it(
    bench: Bench, lost: Any
) -> None:
    desk, looks = await lost(bench, FaultKind.LOSE_REPLY_AFTER_EXECUTION)
    await desk.control.set_conditions("venue_a", empty_history_times=3)
    answer = await looks(*LONG_ENOUGH)
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD")
    assert "holds less" in answer.error_message
    assert await desk.posts() == 1
    assert (await looks(0)).status is ResultStatus.COMPLETED


@pytest.mark.parametrize("bench", IDEMPOTENT, ids=lambda bench: bench.wire)
async def test_a_resend_whose_answer_is_lost_too_stays_one_withdrawal(bench: Bench, lost: Any) -> None:
    desk, looks = await lost(bench, FaultKind.LOSE_REPLY_BEFORE_EXECUTION)
    await desk.control.order(FaultKind.LOSE_REPLY_AFTER_EXECUTION, venue="venue_a")
    assert (await looks(*LONG_ENOUGH)).error_code == "ASKED_AGAIN"
    found = await looks(0)
    (executed,) = await desk.executed()
    assert found.provider_refs["exchange_withdrawal_id"] == executed["id"]


@pytest.mark.parametrize("bench", IDEMPOTENT, ids=lambda bench: bench.wire)
async def test_a_refused_resend_proves_nothing_and_ends_with_a_person(bench: Bench, lost: Any) -> None:
    desk, looks = await lost(bench, FaultKind.LOSE_REPLY_BEFORE_EXECUTION)
    await desk.control.set_conditions("venue_a", key_withdraws=False)
    seen = [await looks(*LONG_ENOUGH) for _ in range(4)]
    assert [one.error_code for one in seen] == ["ASKED_AGAIN"] * 3 + ["NOT_ON_RECORD"]
    assert {one.status for one in seen} == {ResultStatus.UNKNOWN}
    assert seen[-1].evidence["operator"]
    assert await desk.executed() == []


@pytest.mark.parametrize("bench", IDEMPOTENT, ids=lambda bench: bench.wire)
@pytest.mark.parametrize("entry", [{}, {"resend_is_safe": False}], ids=["arrived", "off"])
async def test_nothing_is_asked_again_when_it_arrived_or_nobody_said_it_is_safe(
    bench: Bench, entry: dict[str, Any], lost: Any
) -> None:
    desk, looks = await lost(bench, FaultKind.LOSE_REPLY_BEFORE_EXECUTION, Arrived(), **entry)
    answer = await looks(*LONG_ENOUGH)
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD")
    assert await desk.posts() == 1
