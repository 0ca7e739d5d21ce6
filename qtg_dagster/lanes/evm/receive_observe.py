"""`exec.evm.receive_observe`: what a given transaction credited to one of our accounts."""

from __future__ import annotations

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.lanes.evm import erc20
from qtg_dagster.lanes.evm.endpoint import reading
from qtg_dagster.lanes.evm.observing import ChainObserver, moved_from, not_told, still_waiting, tx_hash
from qtg_dagster.lanes.evm.receipts import Outcome, Receipt, confirmations, find_receipt, is_final, revert_reason
from qtg_dagster.lanes.evm.rpc import ChainRpc
from qtg_dagster.lanes.evm.terms import AssetOnChain, account_on_chain, asset_on_chain, text


class ReceiveObserve(ChainObserver):
    """Reports the amount that arrived, from the chain's own record, never the amount that was asked for."""

    def check(self, context: ExecutionContext) -> None:
        """Raises for an asset or account that is not on the chain."""
        self._expected(context)

    async def read(self, rpc: ChainRpc, context: ExecutionContext) -> ExecutionResult:
        """Waits for the chain's `confirmations`, then reads the credit."""
        asset, address = self._expected(context)
        receipt = await find_receipt(rpc, tx_hash(context))
        moved = await moved_from(rpc, context, receipt)
        if receipt is None:
            return still_waiting(moved or "the transaction to be mined", tx_hash=tx_hash(context))
        depth = await confirmations(rpc, receipt)
        if depth < rpc.entry.confirmations:
            return still_waiting(moved or f"{rpc.entry.confirmations} confirmations", receipt, confirmations=depth)
        units = await self._credited(rpc, receipt, asset, address) if receipt.succeeded else 0
        if units == 0 and not await is_final(rpc, receipt):
            return still_waiting(moved or "finality: nothing is credited in this block", receipt)
        if receipt.outcome is Outcome.NOT_TOLD:
            return not_told(receipt)
        if not receipt.succeeded:
            reason = await revert_reason(rpc, receipt)
            return _failed("REVERTED", f"the transaction reverted: {reason}", receipt)
        if units == 0:
            return self._nothing_seen(receipt, asset, address)
        received = Amount(asset.asset, units).to_text()
        return ExecutionResult(
            status=ResultStatus.COMPLETED,
            provider_refs={**receipt.refs(), "received_amount": received},
            evidence={**receipt.refs(), "confirmations": depth, "received_amount": received, "account": address},
        )

    def _expected(self, context: ExecutionContext) -> tuple[AssetOnChain, str]:
        chain = text(context.node_config, "chain")
        inventory = self._chains.inventory
        asset = asset_on_chain(inventory, chain, text(context.node_config, "asset"))
        return asset, account_on_chain(inventory, chain, text(context.node_config, "account"))

    @staticmethod
    async def _credited(rpc: ChainRpc, receipt: Receipt, asset: AssetOnChain, address: str) -> int:
        if asset.token is not None:
            return erc20.transferred(receipt.raw, token=asset.token, recipient=address)
        sent = await rpc.ask("eth_getTransactionByHash", receipt.hash)
        with reading(rpc.key, "the transaction"):
            return int(sent["value"], 16) if sent and str(sent.get("to")).lower() == address else 0

    @staticmethod
    def _nothing_seen(receipt: Receipt, asset: AssetOnChain, address: str) -> ExecutionResult:
        if asset.token is not None:
            return _failed("NOT_CREDITED", f"no {asset.key} reached {address} in this transaction", receipt)
        # Coins paid out by a contract leave no log and no `to`: absence here is not evidence.
        return ExecutionResult(
            status=ResultStatus.UNKNOWN,
            provider_refs=receipt.refs(),
            error_code="CREDIT_NOT_VISIBLE",
            error_message=f"the transaction does not name {address}; a contract may have paid it: compare balances",
            evidence=receipt.refs(),
        )


def _failed(code: str, message: str, receipt: Receipt) -> ExecutionResult:
    return ExecutionResult(
        status=ResultStatus.FAILED,
        provider_refs=receipt.refs(),
        error_code=code,
        error_message=message,
        evidence={**receipt.refs(), **receipt.told()},
    )
