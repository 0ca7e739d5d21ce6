"""Asking every executor and signer whether its dependency can be reached, and keeping the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from qtg_dagster.domain.chains import evm_address
from qtg_dagster.domain.contract import HealthReport, HealthState
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.engine.parts import Engine
from qtg_dagster.executors.patience import answer_within
from qtg_dagster.store.health import (
    SeenHealth,
    record_executors,
    record_signers,
    register_executors,
    register_signers,
)

_ANSWER_SECONDS = 10.0
_NOBODY = "0x" + "0" * 40


@dataclass(frozen=True, slots=True)
class HealthPass:
    """What one round found."""

    executors: tuple[SeenHealth, ...]
    signers: tuple[SeenHealth, ...]

    def down(self) -> list[SeenHealth]:
        return [seen for seen in (*self.executors, *self.signers) if seen.state is HealthState.DOWN]


async def refresh_health(engine: Engine) -> HealthPass:
    """Ask all at once, and store what they say in one transaction. One that fails or hangs is down; it stops nobody."""
    network_class = engine.settings.network_class
    executors = await _ask_all((key, executor.health) for key, executor in engine.executors.items())
    signers = await _ask_all((key, signer.health) for key, signer in engine.signers.items())
    async with engine.database.transaction() as transaction:
        await register_executors(transaction, network_class, [seen.key for seen in executors])
        await register_signers(transaction, network_class, [seen.key for seen in signers])
        await record_executors(transaction, network_class, executors)
        await record_signers(transaction, network_class, signers)
    return HealthPass(executors, signers)


async def _ask_all(
    asked: Iterable[tuple[str, Callable[[], Awaitable[HealthReport | None]]]],
) -> tuple[SeenHealth, ...]:
    return tuple(await asyncio.gather(*(_ask(key, health) for key, health in asked)))


async def _ask(key: str, health: Callable[[], Awaitable[HealthReport | None]]) -> SeenHealth:
    started = time.monotonic()
    try:
        report = await answer_within(_ANSWER_SECONDS, health)
    except TimeoutError:
        report = HealthReport(health_state=HealthState.DOWN, detail=f"no answer within {_ANSWER_SECONDS:.0f} s, twice")
    except Exception as error:  # noqa: BLE001 - whatever a dependency throws: it is down, and the others are still asked
        report = HealthReport(health_state=HealthState.DOWN, detail=f"{type(error).__name__}: {error}")
    latency_ms = (time.monotonic() - started) * 1000
    if report is None:
        return SeenHealth(key, HealthState.UNKNOWN, "has nothing to reach", latency_ms)
    address, objection = _observed(report.signer_address)
    state = report.health_state
    if objection and state is HealthState.HEALTHY:
        state = HealthState.DEGRADED
    detail = "; ".join(text for text in (report.detail, objection) if text)
    return SeenHealth(key, state, redact_text(detail), latency_ms, address)


def _observed(stated: str | None) -> tuple[str | None, str]:
    """The canonical address and nothing to object to, or None and what is wrong with it."""
    if stated is None:
        return None, ""
    try:
        address = evm_address(stated, field="signer_address")
    except InvalidInput as wrong:
        return None, str(wrong)
    return (None, "signer_address: is the zero address") if address == _NOBODY else (address, "")
