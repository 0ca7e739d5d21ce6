"""From what was sighted on the chain to what is said about the transfer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.lanes.evm import erc20
from qtg_dagster.lanes.evm.broadcast import Verdict
from qtg_dagster.lanes.evm.fate import Fate, Sighting
from qtg_dagster.lanes.evm.receipts import STATUS_ODD, Outcome, Receipt, is_canonical, revert_reason
from qtg_dagster.lanes.evm.rpc import ChainRpc
from qtg_dagster.lanes.evm.sent import NotThisTransfer, SentTransfer

TAKER_LOOK_SECONDS = 5.0


async def observed(
    rpc: ChainRpc, sent: SentTransfer, sighting: Sighting, node_refs: Mapping[str, Any], verdict: Verdict | None
) -> ExecutionResult:
    """The answer of observe. A receipt that was seen and is gone takes the transfer back to ACCEPTED."""
    final = await _final_answer(rpc, sent, sighting)
    if final is not None:
        return final
    if sighting.fate in (Fate.PENDING, Fate.ABSENT) and await _reorganised(rpc, node_refs):
        seen = f"block {node_refs['block_number']} ({node_refs['block_hash']}) was reorganised away"
        return _answer(ResultStatus.ACCEPTED, sent, sighting, reorganised=seen)
    if sighting.fate is Fate.NONCE_TAKEN or verdict is Verdict.NONCE_TOO_LOW:
        return _answer(ResultStatus.UNKNOWN, sent, sighting, code="NONCE_TAKEN", wait=TAKER_LOOK_SECONDS)
    if sighting.fate is Fate.PENDING and await _is_outbid(rpc, sent):
        message = f"the base fee is over the {sent.max_fee_per_gas} wei signed: it and all of {sent.own.sender} wait"
        return _answer(ResultStatus.OBSERVING, sent, sighting, code="BASE_FEE_OVER_OFFER", message=message)
    code = f"REBROADCAST_{verdict}" if verdict not in (None, Verdict.ACCEPTED) else None
    return _answer(ResultStatus.OBSERVING, sent, sighting, code=code)


async def recovered(rpc: ChainRpc, sent: SentTransfer, sighting: Sighting, verdict: Verdict | None) -> ExecutionResult:
    """The answer of recover: ACCEPTED once a node has the transaction, else UNKNOWN until there is proof."""
    final = await _final_answer(rpc, sent, sighting)
    if final is not None:
        return final
    if sighting.fate in (Fate.MINED, Fate.PENDING) or verdict is Verdict.ACCEPTED:
        return _answer(ResultStatus.ACCEPTED, sent, sighting)
    code = f"REBROADCAST_{verdict}" if verdict is not None else str(sighting.fate).upper()
    return _answer(ResultStatus.UNKNOWN, sent, sighting, code=code, wait=TAKER_LOOK_SECONDS)


def unsigned() -> ExecutionResult:
    """An attempt without stored bytes: nothing here proves or disproves anything."""
    return ExecutionResult(
        status=ResultStatus.UNKNOWN,
        error_code="NO_SIGNED_BYTES",
        error_message="this attempt has no stored signed bytes to look for",
        evidence={"signed_payload": None},
    )


def mismatched(error: NotThisTransfer) -> ExecutionResult:
    """An attempt whose stored action was changed: what was really handed over, if anything, cannot be told from it."""
    return ExecutionResult(
        status=ResultStatus.UNKNOWN,
        error_code="STORED_ACTION_MISMATCH",
        error_message=f"the stored action is not what was prepared and signed: {error}",
        evidence={"stored_action": str(error)},
    )


async def _final_answer(rpc: ChainRpc, sent: SentTransfer, sighting: Sighting) -> ExecutionResult | None:
    if sighting.fate is Fate.REPLACED:
        message = f"nonce {sent.own.nonce} is used for good by {sighting.taker}: ours can never be mined"
        return _answer(ResultStatus.FAILED, sent, sighting, code="NONCE_USED_BY_ANOTHER", message=message)
    receipt = sighting.receipt
    if sighting.fate is not Fate.SETTLED or receipt is None:
        return None
    if receipt.outcome is Outcome.NOT_TOLD:
        return _answer(ResultStatus.UNKNOWN, sent, sighting, code=STATUS_ODD, message=receipt.oddity())
    gas_fee = Amount(rpc.native, receipt.fee_wei).to_text()
    if not receipt.succeeded:
        message = f"reverted: {await revert_reason(rpc, receipt)}"
        return _answer(ResultStatus.FAILED, sent, sighting, code="REVERTED", message=message, gas_fee=gas_fee)
    if not _moved(sent, receipt):
        message = "mined without the Transfer log it should have: look at the token contract and both balances"
        return _answer(ResultStatus.UNKNOWN, sent, sighting, code="NO_TRANSFER_LOG", message=message)
    return _answer(ResultStatus.COMPLETED, sent, sighting, gas_fee=gas_fee)


def _moved(sent: SentTransfer, receipt: Receipt) -> bool:
    token = sent.terms.asset.token
    if token is None:
        return True
    # A token that takes a fee credits less than was asked, yet it moved.
    moved = erc20.transferred(receipt.raw, token=token, recipient=sent.terms.destination, sender=sent.own.sender)
    return moved > 0


async def _is_outbid(rpc: ChainRpc, sent: SentTransfer) -> bool:
    """Whether no block takes it until the base fee falls again."""
    latest = await rpc.block("latest")
    return latest is not None and sent.max_fee_per_gas is not None and latest.base_fee > sent.max_fee_per_gas


async def _reorganised(rpc: ChainRpc, node_refs: Mapping[str, Any]) -> bool:
    if not node_refs.get("block_hash") or not node_refs.get("block_number"):
        return False
    # None: the endpoint does not reach that height; it lags, which proves nothing.
    return await is_canonical(rpc, int(node_refs["block_number"]), str(node_refs["block_hash"])) is False


def _answer(
    status: ResultStatus,
    sent: SentTransfer,
    sighting: Sighting,
    *,
    code: str | None = None,
    message: str | None = None,
    wait: float | None = None,
    **seen: str,
) -> ExecutionResult:
    refs = sent.refs() | (sighting.receipt.refs() if sighting.receipt else {})
    if "gas_fee" in seen:
        refs["gas_fee"] = seen["gas_fee"]
    return ExecutionResult(
        status=status,
        provider_refs=refs,
        error_code=code,
        error_message=message or (f"{code}: {sighting.evidence.get('node_said', sighting.fate)}" if code else None),
        retry_after_seconds=wait,
        evidence={"fate": sighting.fate.value, **sighting.evidence, **seen},
    )
