"""`exec.evm.finality_observe`: waits until a transaction's block can no longer be taken back."""

from __future__ import annotations

from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.lanes.evm.observing import ChainObserver, moved_from, not_told, still_waiting, tx_hash
from qtg_dagster.lanes.evm.receipts import Outcome, find_receipt, is_canonical, revert_reason
from qtg_dagster.lanes.evm.rpc import ChainRpc


class FinalityObserve(ChainObserver):
    """Final by depth (`finality_confirmations`) or by the chain's own `finalized` block."""

    def check(self, context: ExecutionContext) -> None:
        """Chain and hash, which every observer checks, are all it needs."""

    async def read(self, rpc: ChainRpc, context: ExecutionContext) -> ExecutionResult:
        """Reads receipt and block afresh every time: a block that changed starts the wait again."""
        receipt = await find_receipt(rpc, tx_hash(context))
        moved = await moved_from(rpc, context, receipt)
        if receipt is None:
            return still_waiting(moved or "the transaction to be mined", tx_hash=tx_hash(context))
        final = await rpc.final_height()
        if receipt.block_number > final:
            return still_waiting(moved or "finality", receipt, final_block=final)
        if not await is_canonical(rpc, receipt.block_number, receipt.block_hash):
            return still_waiting("the receipt's block to be canonical", receipt, final_block=final)
        if receipt.outcome is Outcome.NOT_TOLD:
            return not_told(receipt)
        refs = {**receipt.refs(), "finalized_block": str(final)}
        if receipt.succeeded:
            return ExecutionResult(status=ResultStatus.COMPLETED, provider_refs=refs, evidence={**refs})
        reason = await revert_reason(rpc, receipt)
        return ExecutionResult(
            status=ResultStatus.FAILED,
            provider_refs=refs,
            error_code="REVERTED",
            error_message=f"the transaction reverted: {reason}",
            evidence={**refs, **receipt.told()},
        )
