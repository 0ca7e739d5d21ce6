"""What the gate of a service remembers, for how long, and how much of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from starlette.datastructures import Headers

from qtg_dagster.domain.errors import ConfigurationError, RequestRefused
from qtg_dagster.executors.message_auth import new_nonce, request_headers
from qtg_dagster.executors.request_gate import RequestGate
from qtg_dagster.secret import Secret
from tests.executors.remote.orders import SECRET


class HandClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def pass_(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def signed(stamp: object, nonce: str) -> Headers:
    """Headers of a request that is signed rightly, whatever its time and nonce are."""
    given = {"method": "POST", "path": "/submit", "idempotency_key": "k", "body": b"x"}
    return Headers(request_headers(SECRET, timestamp=stamp, nonce=nonce, **given))  # type: ignore[arg-type]


def knock(gate: RequestGate, clock: HandClock, *, nonce: str | None = None, ahead: float = 0) -> None:
    """Ask with a signed request stamped `ahead` seconds from now."""
    stamp = int((clock.now().timestamp() + ahead) * 1000)
    gate.admit(method="POST", path="/submit", headers=signed(stamp, nonce or new_nonce()), body=b"x")


def refused(gate: RequestGate, clock: HandClock, *, nonce: str | None = None, ahead: float = 0) -> str:
    with pytest.raises(RequestRefused) as raised:
        knock(gate, clock, nonce=nonce, ahead=ahead)
    return raised.value.code


@pytest.mark.parametrize("ahead", [0, 59, 60])
def test_a_nonce_is_known_for_as_long_as_its_request_is_not_stale(ahead: int, clock: HandClock) -> None:
    gate, nonce = RequestGate([SECRET], clock), "a" * 32
    stamped = clock.now().timestamp() + ahead
    knock(gate, clock, nonce=nonce, ahead=ahead)
    for _ in range(13):
        clock.pass_(10)
        code = refused(gate, clock, nonce=nonce, ahead=stamped - clock.now().timestamp())
        assert code == ("REPLAYED" if clock.now().timestamp() - stamped <= 60 else "STALE")
        knock(gate, clock)


def test_a_full_memory_lets_nobody_in_until_something_may_be_forgotten(clock: HandClock) -> None:
    gate = RequestGate([SECRET], clock, most_nonces=3)
    for _ in range(3):
        knock(gate, clock)
    assert refused(gate, clock) == "BUSY"
    clock.pass_(120.001)
    knock(gate, clock)


def test_a_request_from_before_the_start_is_stale(clock: HandClock) -> None:
    """Whether it came before the service was started anew cannot be known."""
    gate = RequestGate([SECRET], clock)
    clock.pass_(1)
    assert refused(gate, clock, ahead=-1.001) == "STALE"
    knock(gate, clock, ahead=-1)


def test_a_nonce_of_another_shape_is_refused(clock: HandClock) -> None:
    assert refused(RequestGate([SECRET], clock), clock, nonce="short") == "BAD_NONCE"


@pytest.mark.parametrize("stamp", ["", "soon", "-5", "1e12", "9" * 40])
def test_a_time_that_is_none_is_refused(stamp: str, clock: HandClock) -> None:
    gate, headers = RequestGate([SECRET], clock), signed(stamp, "a" * 32)
    with pytest.raises(RequestRefused, match="QTG-Timestamp must be Unix time"):
        gate.admit(method="POST", path="/submit", headers=headers, body=b"x")


@pytest.mark.parametrize("secrets", [[], [Secret("short")]])
def test_a_gate_needs_a_secret_worth_the_name(secrets: list[Secret], clock: HandClock) -> None:
    with pytest.raises(ConfigurationError):
        RequestGate(secrets, clock)
