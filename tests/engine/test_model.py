"""Whatever dies, is lost or comes late, and whatever people do meanwhile: belief never contradicts the truth."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator
from typing import Any

import hypothesis.core
import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from qtg_dagster.domain import progress
from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.domain.errors import IllegalMove
from qtg_dagster.domain.journal import AttemptOutcome
from qtg_dagster.domain.states import NodeState
from qtg_dagster.domain.workers import Claimant
from qtg_dagster.engine import expiry, outcomes, parts
from tests.engine.days import Days
from tests.engine.grounds import Ground, MemoryGround, PostgresGround
from tests.engine.memory import MemoryStore
from tests.engine.memory_decisions import MemoryDecisions
from tests.engine.memory_rows import Node
from tests.engine.model import TruthfulExecutor
from tests.recycling import wipe

Spend = Callable[..., None]


@pytest.fixture
def spend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spend]:
    """Spend random days on a ground; a failure names the seed that replays it."""
    given = request.config.getoption("--hypothesis-seed")
    drawn = int(given) if given else secrets.randbelow(2**32)
    monkeypatch.setattr(parts, "RETRY_DELAYS", (0.0, 0.0))
    shown = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))

    def days(new_ground: Callable[[], Ground], *, examples: int, shrink: bool = False, seed: int = drawn) -> None:
        monkeypatch.setattr(hypothesis.core, "global_force_seed", seed)
        machine = type("RandomDays", (Days,), {"new_ground": staticmethod(new_ground)})
        how = settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        )
        try:
            run_state_machine_as_test(machine, settings=how)
        except BaseException as error:
            error.add_note(f"replay with: ./qtg test {request.node.nodeid} --hypothesis-seed={seed}")
            raise

    yield days
    structlog.configure(**shown)


def test_days_in_memory(spend: Spend) -> None:
    spend(MemoryGround, examples=200, shrink=True)


def test_days_in_postgresql(spend: Spend, database_url: str) -> None:
    def empty() -> Ground:
        wipe(database_url)
        return PostgresGround(database_url)

    spend(empty, examples=10)


def _never_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "_holds", lambda *_: True)


def _intents_look_at_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "_begins_nodes", lambda *_: True)


def _a_lost_answer_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(outcomes._AFTER_SUBMIT, ResultStatus.UNKNOWN, (NodeState.FAILED, AttemptOutcome.FAILED))


def _absence_is_evidence(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(outcomes._AFTER_RECOVER, ResultStatus.UNKNOWN, (NodeState.FAILED, AttemptOutcome.FAILED))


def _a_submit_is_made_again(patch: pytest.MonkeyPatch) -> None:
    once = TruthfulExecutor.submit

    async def twice(self: TruthfulExecutor, *what: Any) -> ExecutionResult:
        try:
            return await once(self, *what)
        except TimeoutError:
            return await once(self, *what)

    patch.setattr(TruthfulExecutor, "submit", twice)


def _successors_wait_for_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(progress, "SETTLED_NODE_STATES", frozenset(NodeState) - {NodeState.BLOCKED})


def _a_release_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "_give_back", lambda *_: None)


def _a_key_is_nobodys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "_key_is_taken", lambda *_: False)


def _the_living_are_robbed(patch: pytest.MonkeyPatch) -> None:
    honest = MemoryStore._claimable

    def robbing(self: MemoryStore, runner: Claimant) -> list[Node]:
        alive, self.alive = self.alive, {}
        found = honest(self, runner)
        self.alive = alive
        return found

    patch.setattr(MemoryStore, "_claimable", robbing)


def _the_sweeper_takes_what_is_approved_too(patch: pytest.MonkeyPatch) -> None:
    async def all_of_them(self: MemoryStore, network_class: str, batch: int, *, but: Collection[str] = ()) -> list[str]:
        return [each for each in self.requests if each not in but][:batch]

    patch.setattr(MemoryStore, "find_expired", all_of_them)
    patch.setattr(MemoryDecisions, "lock_expired", MemoryDecisions.lock_request)


def _expiry_forgets_the_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expiry, "called_off", lambda *_: [])


@pytest.mark.parametrize(
    "breakage",
    [
        _never_fenced,
        _intents_look_at_nothing,
        _a_lost_answer_is_a_failure,
        _absence_is_evidence,
        _a_submit_is_made_again,
        _successors_wait_for_nothing,
        _a_release_is_forgotten,
        _a_key_is_nobodys,
        _the_living_are_robbed,
        _the_sweeper_takes_what_is_approved_too,
        _expiry_forgets_the_nodes,
    ],
)
def test_days_notice_what_is_broken(
    spend: Spend, monkeypatch: pytest.MonkeyPatch, breakage: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """A model that cannot fail proves nothing."""
    breakage(monkeypatch)
    with pytest.raises((AssertionError, IllegalMove)):
        spend(MemoryGround, examples=400, seed=1)
