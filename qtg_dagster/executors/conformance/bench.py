"""What a lane's author supplies so that an executor can be judged: work orders, the provider's own book, and knobs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from qtg_dagster.domain.contract import ExecutionContext, PreparedAction
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.executors.contract import Executor

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


class Knob(StrEnum):
    """What a bench can make its provider do."""

    LOSE_REPLY = "lose-reply"  # the next submit is executed, and its reply never comes
    LOSE_REQUEST = "lose-request"  # the next submit leaves, and is lost before it is executed
    ODD_STATUS = "odd-status"  # this order's action is shown with a status that nobody knows
    AWAY = "away"  # nobody takes a connection
    SILENT = "silent"  # connections are taken, and nothing is ever answered
    SETTLE = "settle"  # this order's action takes its effect, visibly and for good
    FAIL = "fail"  # this order's action is given back, visibly and for good


class Declared(Frozen):
    """What this executor claims for itself beyond the plain contract; each is shown in the report where it counts."""

    acts: bool = True  # False: it only looks, `submit` sends nothing
    #: Fields of the prepared action that differ from one `prepare` to the next: `expires_at`, `provider_refs.NAME`, or
    #: `payload.NAME` for a key of a JSON payload.
    varies: frozenset[str] = frozenset()
    negative_proof: bool = False  # recover has a rule by which absence proves that nothing was executed
    resends_signed_bytes: bool = False  # looks may hand over the very bytes that were signed: one effect at most
    done_when_on_record: bool = False  # COMPLETED means "the provider has it on record", in whatever status
    hands_over: bool = False  # what was executed and cannot be proven its own is UNKNOWN, with evidence for a person
    health_raises: bool = False  # health tells "down" by raising


class Bench(Protocol):
    """An executor with its provider, in the bench's hands.

    `canaries` are the secrets that the executor works with. `sign` gives back what its signer makes of an action that
    asks for a signature. A knob stays turned until `calm`, which undoes all but what the provider has in its book.
    """

    executor: Executor
    declared: Declared
    knobs: frozenset[Knob]
    canaries: tuple[str, ...]

    async def context(self) -> ExecutionContext:
        """A work order, good and never used before."""
        ...

    async def effects(self, idempotency_key: str | None) -> int:
        """How many effects the provider has in its own book for a key, or in all."""
        ...

    async def sign(self, context: ExecutionContext, prepared: PreparedAction) -> PreparedAction:
        """The action with its signed payload."""
        ...

    def session(self) -> AbstractAsyncContextManager[AsyncSession | None]:
        """A session for an executor that asks for one."""
        ...

    async def turn(self, knob: Knob, context: ExecutionContext) -> None:
        """Make the provider behave so from now on."""
        ...

    async def calm(self) -> None:
        """Let the provider behave well again."""
        ...
