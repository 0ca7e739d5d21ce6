"""Drains whose database fails them: they count, wait and go on, and keep nothing that they do not work on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from qtg_dagster.engine import drain as drains
from qtg_dagster.engine.drain import Drain, DrainKind, DrainReport
from qtg_dagster.store.slots import slot_state
from tests.engine.desk import Desk
from tests.engine.plans import begin, node, plan_of, until

ONE = plan_of(node("first"), key="one")
Start = Callable[..., "tuple[Drain, asyncio.Task[DrainReport]]"]
Call = Callable[..., Awaitable[Any]]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drains, "GIVE_BACK_SECONDS", 0.01)


@pytest.fixture
async def start(desk: Desk) -> AsyncIterator[Start]:
    """Start a drain that polls all the time; it is stopped at the end."""
    running: list[tuple[Drain, asyncio.Task[DrainReport]]] = []

    def run(kind: DrainKind = DrainKind.DISPATCH, **settings: object) -> tuple[Drain, asyncio.Task[DrainReport]]:
        often = {"drain_linger_seconds": 60.0, "drain_poll_seconds": 0.05, **settings}
        drain = Drain(replace(desk.engine, settings=desk.engine.settings.model_copy(update=often)), kind)
        running.append((drain, asyncio.create_task(drain.run())))
        return running[-1]

    yield run
    for drain, _ in running:
        drain.stop("the test is over")
    await asyncio.wait_for(asyncio.gather(*(task for _, task in running), return_exceptions=True), 60)


def away() -> OperationalError:
    return OperationalError("SELECT 1", {}, Exception("the server is away"))


def failing(call: Call, times: int, *, after: bool) -> Call:
    """The call, whose first answers are lost: before it took effect, or after it did take one."""
    left = [times]

    async def unreliable(*arguments: Any, **named: Any) -> Any:
        if not left[0]:
            return await call(*arguments, **named)
        if after and not (answer := await call(*arguments, **named)):
            return answer
        left[0] -= 1
        raise away()

    return unreliable


async def until_state(desk: Desk, state: str, many: int = 1) -> None:
    async def there() -> bool:
        return list((await desk.node_states()).values()).count(state) == many

    await until(there, f"{many} nodes are {state}")


async def test_failing_passes_are_counted_and_waited_for_and_end_no_drain(
    desk: Desk, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def no_wait(errors_in_a_row: int) -> float:
        asked.append(errors_in_a_row)
        return 0.0

    monkeypatch.setattr(drains, "error_backoff", no_wait)
    monkeypatch.setattr(desk.engine.store, "claim_ready", failing(desk.engine.store.claim_ready, 6, after=False))
    await desk.begin(ONE)
    drain, _ = start()
    await until_state(desk, "SUBMITTED")
    assert asked == [1, 2, 3, 4, 5, 6]
    assert (drain.report.errors, drain.report.nodes) == (6, 1)
    [row] = await desk.rows("SELECT last_error FROM qtg.worker_heartbeats WHERE worker = 'node_dispatcher'")
    assert "the server is away" in row["last_error"]


async def test_a_claim_whose_answer_was_lost_is_given_back_by_the_drain_that_made_it(
    desk: Desk, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit stood, its answer did not arrive: as long as the drain lives, nobody else may take the node."""
    monkeypatch.setattr(desk.engine.store, "claim_ready", failing(desk.engine.store.claim_ready, 1, after=True))
    await desk.begin(ONE)
    before = (await desk.node())["claim_epoch"]
    start()
    await until_state(desk, "SUBMITTED")
    assert (await desk.node())["claim_epoch"] == before + 3  # claimed, given back, claimed
    assert desk.provider.count("submit", "first") == 1


async def test_arms_that_were_claimed_before_one_failed_are_given_back(
    desk: Desk, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.begin(plan_of(node("first", executor="exec.ccip.send"), key="ccip"))
    desk.will("submit", "first", TimeoutError("lost"))
    await desk.dispatch()
    arms = iter(["ccip", "stargate: away"])
    claim = desk.engine.store.claim_recoverable

    async def second_arm_fails(*arguments: Any, **named: Any) -> Any:
        if next(arms, "") == "stargate: away":
            raise away()
        return await claim(*arguments, **named)

    monkeypatch.setattr(desk.engine.store, "claim_recoverable", second_arm_fails)
    start(DrainKind.RECOVER)
    await until_state(desk, "SUBMITTED")
    assert desk.provider.count("recover", "first") == 1


async def test_a_claim_that_could_not_be_released_is_released_by_a_later_pass(
    desk: Desk, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.engine.store, "release", failing(desk.engine.store.release, 1, after=False))
    plan = await desk.begin(ONE)
    [row] = await desk.rows("SELECT id FROM qtg.movement_plan_nodes")
    await desk.sql("UPDATE qtg.movement_plan_nodes SET executor_key = NULL WHERE id = :id", id=row["id"])
    drain, _ = start()

    async def not_worked() -> bool:
        return drain.report.errors > 0

    await until(not_worked, "the node's work has failed")
    await desk.sql("UPDATE qtg.movement_plan_nodes SET executor_key = 'exec.local.move' WHERE id = :id", id=row["id"])
    await until_state(desk, "SUBMITTED")
    assert desk.request_id == plan


async def test_what_is_in_work_is_not_given_back(desk: Desk, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass fails while another node is at its provider: that one stays with its worker."""
    swept: list[int] = []
    release = desk.engine.store.release_forgotten

    async def sweep(*arguments: Any, **named: Any) -> int:
        swept.append(await release(*arguments, **named))
        return swept[-1]

    let_go = asyncio.Event()

    async def hold() -> None:
        await let_go.wait()

    monkeypatch.setattr(desk.engine.store, "release_forgotten", sweep)
    desk.provider.during("submit", "first", hold)
    await desk.begin(ONE)
    start()
    await until_state(desk, "SUBMITTING")
    epoch = (await desk.node())["claim_epoch"]
    monkeypatch.setattr(desk.engine.store, "claim_ready", failing(desk.engine.store.claim_ready, 1, after=True))
    await begin(desk.engine, plan_of(node("second"), key="two"))
    await until_state(desk, "SUBMITTED")
    assert (await desk.states()) == {"first": "SUBMITTING", "second": "SUBMITTED"}
    let_go.set()
    await until_state(desk, "SUBMITTED", 2)
    assert sum(swept) == 1
    assert (await desk.node())["claim_epoch"] == epoch
    assert len(desk.provider.book) == 2


async def test_a_drain_that_loses_its_session_while_it_waits_for_its_slot_ends(desk: Desk, start: Start) -> None:
    start()

    async def waiting() -> bool:
        return (await slot_state(desk.engine.database, "dispatch", "sandbox")).waiters == 1

    async def held() -> bool:
        return (await slot_state(desk.engine.database, "dispatch", "sandbox")).held

    await until(held, "the first drain works")
    second, task = start()
    await until(waiting, "the second drain waits")
    await desk.sql(
        "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted "
        "AND l.objid::bigint = :runner AND l.objsubid = 2",
        runner=second.report.runner_id,
    )
    report = await asyncio.wait_for(task, 30)
    assert (report.ended_because, report.nodes) == ("lost its database session", 0)


async def test_a_backlog_that_cannot_be_counted_is_not_taken_for_none(
    desk: Desk, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    count = desk.engine.store.count_backlog

    async def at_first_not(*arguments: Any, **named: Any) -> Any:
        counted.append("asked")
        if len(counted) < 3:
            raise away()
        return await count(*arguments, **named)

    monkeypatch.setattr(desk.engine.store, "count_backlog", at_first_not)
    _, task = start(drain_linger_seconds=0.0)
    assert (await asyncio.wait_for(task, 30)).ended_because == "idle"
    assert len(counted) == 3
    assert desk.provider.calls == []
