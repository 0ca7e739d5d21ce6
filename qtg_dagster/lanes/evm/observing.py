"""What the lane's two observers share: they only read, so prepare and submit send nothing anywhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, HealthReport, PreparedAction, ResultStatus
from qtg_dagster.domain.errors import InvalidInput, NotFound
from qtg_dagster.lanes.evm.answers import LOOK_FAILED, look_failed, rejected
from qtg_dagster.lanes.evm.health import chains_health
from qtg_dagster.lanes.evm.receipts import STATUS_ODD, Outcome, Receipt, is_canonical
from qtg_dagster.lanes.evm.rpc import ChainRpc, Chains
from qtg_dagster.lanes.evm.terms import text

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


class ChainObserver(ABC):
    """An executor that waits for something to be seen on a chain."""

    submit_grace_seconds = 0.0

    def __init__(self, chains: Chains) -> None:
        self._chains = chains

    @abstractmethod
    def check(self, context: ExecutionContext) -> None:
        """Raise `InvalidInput` or `NotFound` for a config that can never be observed."""

    @abstractmethod
    async def read(self, rpc: ChainRpc, context: ExecutionContext) -> ExecutionResult:
        """One look; may raise what the chain's endpoints raise."""

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        """Checks the config alone: whether the chain answers is found out by looking."""
        try:
            self._chains[text(context.node_config, "chain")]
            tx_hash(context)
            self.check(context)
        except (InvalidInput, NotFound) as error:
            return rejected("INVALID_CONFIG", str(error))
        return None

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        """What will be looked for."""
        return PreparedAction.of(
            action_type=context.action_type,
            payload_format="evm.observe.v1",
            payload=canonical_json(context.node_config),
        )

    async def submit(
        self,
        context: ExecutionContext,
        prepared: PreparedAction,  # noqa: ARG002 - the contract's
        session: AsyncSession | None = None,  # noqa: ARG002 - the contract's
    ) -> ExecutionResult:
        """Nothing is sent; the looking begins."""
        refs = {"tx_hash": tx_hash(context)}
        return ExecutionResult(
            status=ResultStatus.ACCEPTED, provider_refs=refs, evidence={"observing": refs["tx_hash"]}
        )

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        """One look at the chain; a look that fails changes nothing."""
        rpc = self._chains[text(context.node_config, "chain")]
        try:
            return await self.read(rpc, context)
        except LOOK_FAILED as error:
            return look_failed(ResultStatus.OBSERVING, error)

    async def recover(
        self,
        context: ExecutionContext,
        session: AsyncSession | None = None,  # noqa: ARG002 - the contract's
    ) -> ExecutionResult:
        """A look like any other: an observer has no effect that could be lost."""
        seen = await self.observe(context)
        return seen.model_copy(update={"status": ResultStatus.ACCEPTED}) if seen.status is _OBSERVING else seen

    async def health(self) -> HealthReport | None:
        """Whether the chains answer, each as itself."""
        return await chains_health(self._chains)


_OBSERVING = ResultStatus.OBSERVING
_HASH_DIGITS = 64


def tx_hash(context: ExecutionContext) -> str:
    """The transaction to look for, lower-case with 0x; raises `InvalidInput` for anything else."""
    given = text(context.node_config, "tx_hash").lower().removeprefix("0x")
    if len(given) != _HASH_DIGITS or set(given) - set("0123456789abcdef"):
        raise InvalidInput("config.tx_hash", f"{given!r} is not a transaction hash", "Give 0x and 64 hex digits.")
    return "0x" + given


def still_waiting(reason: str, receipt: Receipt | None = None, **evidence: str | int) -> ExecutionResult:
    """OBSERVING, with what was seen."""
    seen = {**receipt.refs(), **(receipt.told() if receipt.outcome is Outcome.NOT_TOLD else {})} if receipt else {}
    return ExecutionResult(
        status=ResultStatus.OBSERVING,
        provider_refs=receipt.refs() if receipt else {},
        evidence={"waiting_for": reason, **seen, **evidence},
    )


def not_told(receipt: Receipt) -> ExecutionResult:
    """UNKNOWN: mined for good, and the receipt tells neither success nor revert."""
    return ExecutionResult(
        status=ResultStatus.UNKNOWN,
        provider_refs=receipt.refs(),
        error_code=STATUS_ODD,
        error_message=receipt.oddity(),
        evidence={**receipt.refs(), **receipt.told()},
    )


async def moved_from(rpc: ChainRpc, context: ExecutionContext, receipt: Receipt | None) -> str | None:
    """Says so when the block in which this node last saw the transaction is no longer part of the chain."""
    seen = context.node_refs.get("block_hash")
    if not seen or (receipt is not None and receipt.block_hash == str(seen).lower()):
        return None
    if await is_canonical(rpc, int(context.node_refs["block_number"]), str(seen)) is False:
        return f"block {context.node_refs['block_number']} ({seen}) was reorganised away"
    return None
