"""The half of the executor contract that is the same for all executors that only look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    PreparedAction,
    ResultStatus,
)
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.lanes.cex.accounts import VenueAccounts
from qtg_dagster.lanes.cex.answers import lookup_failed, refused
from qtg_dagster.lanes.cex.health import venues_health
from qtg_dagster.lanes.cex.reply import LookupFailed

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


class Observation:
    """An executor without effect: everything but `observe` follows from `look`."""

    #: Nothing was sent that a venue could still act on, so whoever takes over need not wait.
    submit_grace_seconds = 0.0

    def __init__(self, accounts: VenueAccounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock

    def check(self, context: ExecutionContext) -> None:
        """Raise `InvalidInput` for a config that cannot be looked for."""
        raise NotImplementedError

    async def look(self, context: ExecutionContext) -> ExecutionResult:
        """One look; raises `LookupFailed` when it brings nothing."""
        raise NotImplementedError

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        """The config can be read; nothing is asked of the venue."""
        try:
            self.check(context)
        except InvalidInput as problem:
            return refused(problem)
        return None

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        """What is looked for; there is nothing to send."""
        return PreparedAction.of(
            action_type=context.action_type,
            payload_format="qtg.cex.look.v1",
            payload=canonical_json({name: str(value) for name, value in context.node_config.items()}),
        )

    async def submit(
        self,
        context: ExecutionContext,  # noqa: ARG002 - the contract's signature
        prepared: PreparedAction,
        session: AsyncSession | None = None,  # noqa: ARG002
    ) -> ExecutionResult:
        """Accepted at once: looking has no effect, so nothing is called."""
        return ExecutionResult(status=ResultStatus.ACCEPTED, evidence={"observes": prepared.payload_hash})

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        """One look; a failed one leaves the node in progress."""
        try:
            return await self.look(context)
        except LookupFailed as problem:
            return lookup_failed(ResultStatus.OBSERVING, problem)

    async def recover(
        self,
        context: ExecutionContext,
        session: AsyncSession | None = None,  # noqa: ARG002 - the contract's signature
    ) -> ExecutionResult:
        """One look; what is in progress goes back to being observed."""
        try:
            seen = await self.look(context)
        except LookupFailed as problem:
            return lookup_failed(ResultStatus.UNKNOWN, problem)
        if seen.status is ResultStatus.OBSERVING:
            return seen.model_copy(update={"status": ResultStatus.ACCEPTED})
        return seen

    async def health(self) -> HealthReport | None:
        """System status and a signed request that changes nothing, at every venue."""
        return await venues_health(self._accounts)
