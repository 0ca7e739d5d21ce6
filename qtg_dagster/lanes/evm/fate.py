"""What became of one signed transaction: the evidence that observe and recover both decide from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from qtg_dagster.lanes.evm.endpoint import reading
from qtg_dagster.lanes.evm.receipts import Receipt, confirmations, find_receipt, is_final
from qtg_dagster.lanes.evm.rpc import ChainRpc


class Fate(StrEnum):
    """Where a transaction stands. Absence is a state of its own, not a failure."""

    SETTLED = "settled"  # mined, canonical, deep enough, and final unless `receipt` says that it succeeded
    MINED = "mined"  # mined, not yet deep enough
    PENDING = "pending"  # known to a node
    ABSENT = "absent"  # known to none, and its nonce is free: the same bytes may be sent again
    NONCE_TAKEN = "nonce_taken"  # its nonce is used, by whom is not yet final
    REPLACED = "replaced"  # its nonce is used for good by the transaction `taker`


@dataclass(frozen=True, slots=True)
class OwnTransaction:
    """A transaction that we signed."""

    hash: str
    sender: str
    nonce: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """One look at the chain."""

    fate: Fate
    receipt: Receipt | None = None
    taker: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)


async def look(rpc: ChainRpc, own: OwnTransaction) -> Sighting:
    """Find the transaction; raises what the endpoints raise: a look that failed is no sighting."""
    receipt = await find_receipt(rpc, own.hash)
    if receipt is None:
        known = await rpc.ask_all("eth_getTransactionByHash", own.hash)
        if any(known):
            return Sighting(Fate.PENDING, evidence={"tx_hash": own.hash, "pool": "pending"})
        counts = await rpc.quantities("eth_getTransactionCount", own.sender, "latest")
        if max(counts) <= own.nonce:
            return Sighting(Fate.ABSENT, evidence={"tx_hash": own.hash, "latest_nonce": max(counts)})
        # It may have been mined between the first question and the last.
        receipt = await find_receipt(rpc, own.hash)
    if receipt is None:
        return await _nonce_taken(rpc, own)
    depth = await confirmations(rpc, receipt)
    evidence = {**receipt.refs(), **receipt.told(), "confirmations": depth}
    settled = depth >= rpc.entry.confirmations and (receipt.succeeded or await is_final(rpc, receipt))
    return Sighting(Fate.SETTLED if settled else Fate.MINED, receipt=receipt, evidence=evidence)


async def _nonce_taken(rpc: ChainRpc, own: OwnTransaction) -> Sighting:
    final = await rpc.final_height()
    evidence = {"tx_hash": own.hash, "nonce": own.nonce, "final_block": final}
    taker = await find_nonce_taker(rpc, own.sender, own.nonce, final)
    if taker is None:
        return Sighting(Fate.NONCE_TAKEN, evidence=evidence)
    evidence |= {"taker": taker[0], "taker_block": taker[1]}
    if taker[0] == own.hash:
        return Sighting(Fate.PENDING, evidence=evidence)
    return Sighting(Fate.REPLACED, taker=taker[0], evidence=evidence)


async def find_nonce_taker(rpc: ChainRpc, sender: str, nonce: int, final: int) -> tuple[str, int] | None:
    """(hash, block) of the transaction that used the nonce at or below block `final`; None when none has yet."""

    async def used_at(block: int) -> bool:
        return await rpc.quantity("eth_getTransactionCount", sender, hex(block)) > nonce

    if final < 0 or not await used_at(final):
        return None
    high, stride = final, 1
    while high - stride >= 0 and await used_at(high - stride):
        high, stride = high - stride, stride * 2
    low = max(high - stride, -1)
    while high - low > 1:
        middle = (low + high) // 2
        if await used_at(middle):
            high = middle
        else:
            low = middle
    block = await rpc.ask("eth_getBlockByNumber", hex(high), True)
    with reading(rpc.key, f"block {high}"):
        for sent in block["transactions"] if block else ():
            if str(sent["from"]).lower() == sender and int(sent["nonce"], 16) == nonce:
                return str(sent["hash"]).lower(), high
    return None
