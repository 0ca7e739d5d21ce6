"""The two contracts that lanes implement. Both are duck-typed: whoever has the methods is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    PreparedAction,
    SignedPayload,
    SignRequest,
)
from qtg_dagster.domain.review import FeeEstimate

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


@runtime_checkable
class Executor(Protocol):
    """One kind of action on one lane, in six methods.

    `session` is None, unless the executor asks for one by `uses_session`.
    """

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        """Can this be done? None passes. Has no side effect anywhere."""
        ...

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        """Package the action: everything decided, nothing signed, nothing sent."""
        ...

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: AsyncSession | None = None
    ) -> ExecutionResult:
        """Do it, with exactly one request to the provider. Called once per attempt."""
        ...

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        """Look at what became of it. Reads only."""
        ...

    async def recover(self, context: ExecutionContext, session: AsyncSession | None = None) -> ExecutionResult:
        """Find out what became of an attempt whose answer was lost. Absence is not evidence."""
        ...

    async def health(self) -> HealthReport | None:
        """Can the dependency be reached? None when there is nothing to reach."""
        ...


@runtime_checkable
class SerializesByKey(Protocol):
    """An executor whose actions must not overlap within one domain identity, e.g. a sender on a chain."""

    def serialization_key(self, node_config: Mapping[str, Any]) -> str | None:
        """The identity for a node's config (`$ref` values still unresolved); None = no restriction."""
        ...


@runtime_checkable
class HasSubmitGrace(Protocol):
    """An executor that knows how long after a lost call its provider may still act."""

    @property
    def submit_grace_seconds(self) -> float:
        """Seconds from the intent until a look-up may begin."""
        ...


@runtime_checkable
class UsesSession(Protocol):
    """An executor that keeps something of its own in the database.

    Its `session` is a fresh one that holds no connection until it is used. The executor commits or rolls back before
    it calls its provider: nothing may hold a connection across a provider call.
    """

    @property
    def uses_session(self) -> bool:
        """Whether `submit` and `recover` are to be given a session."""
        ...


@runtime_checkable
class Adopts(Protocol):
    """An executor that can tell whether something that exists already is a node's very action."""

    #: Refs of its answers, each of which by itself tells one action from all others, e.g. `tx_hash`.
    identifying_refs: tuple[str, ...]

    async def adopt(self, context: ExecutionContext, reference: str) -> ExecutionResult:
        """Look `reference` up, a transaction hash or a venue's id, and compare it with the node's terms. Reads only.

        ACCEPTED with refs and evidence: `observe` follows it from the refs alone. REJECTED says what differs, or why
        the node's own attempt could still act beside it; UNKNOWN that it could not be looked at.
        """
        ...


@runtime_checkable
class EstimatesFees(Protocol):
    """An executor that can say beforehand what its action would cost."""

    async def estimate_fee(self, context: ExecutionContext) -> FeeEstimate:
        """The fee as things stand now. Reads only and reserves nothing; raises with the reason when it is not known."""
        ...


@runtime_checkable
class Signer(Protocol):
    """A party that holds a key and decides for itself what it signs."""

    @property
    def signer_key(self) -> str: ...

    async def sign(self, request: SignRequest) -> SignedPayload:
        """Sign the payload; raises `SigningRefused` when payload, intent and policy do not agree."""
        ...

    async def health(self) -> HealthReport | None: ...


DEFAULT_SUBMIT_GRACE_SECONDS = 10.0


def submit_grace(executor: Executor) -> float:
    """Seconds an unanswered submit is left alone before recovery looks."""
    return executor.submit_grace_seconds if isinstance(executor, HasSubmitGrace) else DEFAULT_SUBMIT_GRACE_SECONDS


def serialization_key(executor: Executor, node_config: Mapping[str, Any]) -> str | None:
    """The key under which this node's action must be alone in flight, or None."""
    return executor.serialization_key(node_config) if isinstance(executor, SerializesByKey) else None
