"""Whatever dies, is lost or comes late, and whatever people do meanwhile: belief never contradicts the truth."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import hypothesis.core
import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from qtg_dagster.engine import parts
from tests.engine.days import Days
from tests.engine.grounds import Ground, MemoryGround, PostgresGround
from tests.recycling import wipe

Spend = Callable[..., None]


@pytest.fixture
def spend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spend]:
    """Spend random days on a ground; a failure names the seed that replays it."""
    given = request.config.getoption("--hypothesis-seed")
    seed = int(given) if given else secrets.randbelow(2**32)
    monkeypatch.setattr(hypothesis.core, "global_force_seed", seed)
    monkeypatch.setattr(parts, "RETRY_DELAYS", (0.0, 0.0))
    shown = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))

    def days(new_ground: Callable[[], Ground], *, examples: int, steps: int, shrink: bool) -> None:
        machine = type("RandomDays", (Days,), {"new_ground": staticmethod(new_ground)})
        how = settings(
            max_examples=examples,
            stateful_step_count=steps,
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
    spend(MemoryGround, examples=300, steps=50, shrink=True)


def test_days_in_postgresql(spend: Spend, database_url: str) -> None:
    def empty() -> Ground:
        wipe(database_url)
        return PostgresGround(database_url)

    spend(empty, examples=15, steps=30, shrink=False)
