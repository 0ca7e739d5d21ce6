"""Is a transaction that somebody else sent this node's transfer? Compared field by field; reads only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from qtg_dagster.domain.contract import ADOPTED_REF, ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.lanes.evm import erc20
from qtg_dagster.lanes.evm.answers import rejected
from qtg_dagster.lanes.evm.endpoint import reading
from qtg_dagster.lanes.evm.fate import OwnTransaction
from qtg_dagster.lanes.evm.preflight import Call
from qtg_dagster.lanes.evm.receipts import STATUS_ODD, Outcome, Receipt, find_receipt, is_canonical, is_final
from qtg_dagster.lanes.evm.rpc import ChainRpc
from qtg_dagster.lanes.evm.sent import SentTransfer
from qtg_dagster.lanes.evm.terms import TransferTerms

_HASH = re.compile(r"0x[0-9a-fA-F]{64}")


async def judge_adoption(
    rpc: ChainRpc, terms: TransferTerms, own: SentTransfer | None, reference: str
) -> ExecutionResult:
    """ACCEPTED for a mined, successful transaction that moves exactly what the node is to move.

    Beside an attempt of the node's own that may still be mined, only a transaction with the same nonce will do, and
    only once it is final: then the chain itself rules out that both happen.
    """
    if not _HASH.fullmatch(reference):
        return rejected("NOT_A_HASH", f"{reference} is not a transaction hash: 0x and 64 hex digits")
    tx_hash = reference.lower()
    receipt = await find_receipt(rpc, tx_hash)
    sent: Mapping[str, Any] | None = await rpc.ask("eth_getTransactionByHash", tx_hash) if receipt else None
    if receipt is None or sent is None:
        return rejected("NOT_MINED", f"{tx_hash} is not mined on {terms.chain}; adopt it once it is")
    with reading(rpc.key, "the transaction"):
        nonce = int(str(sent["nonce"]), 16)
        differing = _differences(terms, sent, receipt)
    if differing:
        return rejected("OTHER_TRANSACTION", f"it differs in {'; '.join(differing)}", tx_hash=tx_hash)
    if receipt.outcome is Outcome.NOT_TOLD:
        return ExecutionResult(
            status=ResultStatus.UNKNOWN,
            error_code=STATUS_ODD,
            error_message=receipt.oddity(),
            evidence={**receipt.refs(), **receipt.told()},
        )
    if not receipt.succeeded or not await is_canonical(rpc, receipt.block_number, receipt.block_hash):
        return rejected("DID_NOT_SUCCEED", "it failed, or its block is not on the chain any more", tx_hash=tx_hash)
    beside = None if own is None else await _beside_own(rpc, own, receipt, nonce)
    if beside is not None:
        return rejected("OWN_ATTEMPT_OPEN", beside, tx_hash=tx_hash)
    refs = {"tx_hash": tx_hash, "nonce": str(nonce)}
    block = await rpc.block(receipt.block_number)
    mined_at = datetime.fromtimestamp(block.timestamp, UTC).isoformat() if block else None
    evidence = {**receipt.refs(), **refs, "mined_at": mined_at, "sender": terms.sender, "call": Call.of(terms).data}
    return ExecutionResult(status=ResultStatus.ACCEPTED, provider_refs=refs, evidence=evidence)


def adopted_transfer(terms: TransferTerms, context: ExecutionContext) -> SentTransfer | None:
    """The transaction that the node adopted; there are no bytes of it to send again. None when it adopted none."""
    refs = context.node_refs
    if ADOPTED_REF not in refs:
        return None
    own = OwnTransaction(hash=str(refs["tx_hash"]), sender=terms.sender, nonce=int(refs["nonce"]))
    return SentTransfer(terms=terms, own=own, signed=None, max_fee_per_gas=None)


def _differences(terms: TransferTerms, sent: Mapping[str, Any], receipt: Receipt) -> list[str]:
    call = Call.of(terms)
    seen = {
        "sender": (str(sent["from"]).lower(), terms.sender),
        "recipient or contract": (str(sent.get("to") or "none").lower(), call.to.lower()),
        "value": (int(str(sent["value"]), 16), call.value),
        "call data": (str(sent.get("input") or "0x").lower(), call.data.lower()),
    }
    found = [f"{name}: {had}, not {wanted}" for name, (had, wanted) in seen.items() if had != wanted]
    if not found and receipt.succeeded and terms.asset.token is not None:
        moved = erc20.transferred(
            receipt.raw, token=terms.asset.token, recipient=terms.destination, sender=terms.sender
        )
        if moved <= 0:
            found.append("transfer log: none of this token to the destination")
    return found


async def _beside_own(rpc: ChainRpc, own: SentTransfer, receipt: Receipt, nonce: int) -> str | None:
    if receipt.hash == own.own.hash:
        return "it is the node's own transaction, which recovery follows by itself; resume the movement"
    if nonce != own.own.nonce:
        return f"it has nonce {nonce}, so the node's own {own.own.hash} under nonce {own.own.nonce} could be mined too"
    if not await is_final(rpc, receipt):
        return f"it is not final yet, and a reorganisation could still mine the node's own {own.own.hash} instead"
    return None
