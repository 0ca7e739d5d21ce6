"""Receipts: is this one canonical, how deep is it buried, why did it revert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qtg_dagster.lanes.evm.endpoint import RpcRefused, RpcUnavailable
from qtg_dagster.lanes.evm.rpc import ChainRpc

_ERROR_STRING = "0x08c379a0"
_PANIC = "0x4e487b71"


@dataclass(frozen=True, slots=True)
class Receipt:
    """A mined transaction's outcome. `raw` is the node's own document."""

    hash: str
    block_number: int
    block_hash: str
    succeeded: bool
    fee_wei: int
    raw: dict[str, Any]

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Receipt:
        return cls(
            hash=str(raw["transactionHash"]).lower(),
            block_number=int(raw["blockNumber"], 16),
            block_hash=str(raw["blockHash"]).lower(),
            succeeded=int(raw["status"], 16) == 1,
            fee_wei=int(raw["gasUsed"], 16) * int(raw.get("effectiveGasPrice") or "0x0", 16),
            raw=raw,
        )

    def refs(self) -> dict[str, str]:
        return {"tx_hash": self.hash, "block_number": str(self.block_number), "block_hash": self.block_hash}


async def find_receipt(rpc: ChainRpc, tx_hash: str) -> Receipt | None:
    """The receipt from whichever endpoint has one; None only when every endpoint was asked and has none."""
    try:
        raw = await rpc.ask("eth_getTransactionReceipt", tx_hash)
    except (RpcUnavailable, RpcRefused):
        raw = None
    if raw is None:
        raw = next(filter(None, await rpc.ask_all("eth_getTransactionReceipt", tx_hash)), None)
    return Receipt.of(raw) if raw and raw.get("blockNumber") else None


async def is_canonical(rpc: ChainRpc, block_number: int, block_hash: str) -> bool | None:
    """Whether the chain has this block at this height; None when the endpoint does not reach that height."""
    block = await rpc.block(block_number)
    return None if block is None else block.hash == block_hash.lower()


async def confirmations(rpc: ChainRpc, receipt: Receipt) -> int:
    """Blocks from the receipt's own to the highest seen, both counted; 0 while its block is not canonical."""
    height = await rpc.height()
    if not await is_canonical(rpc, receipt.block_number, receipt.block_hash):
        return 0
    return max(0, height - receipt.block_number + 1)


async def is_final(rpc: ChainRpc, receipt: Receipt) -> bool:
    """Whether no reorganisation can still change this outcome: what FAILED needs, since a retry pays again."""
    return receipt.block_number <= await rpc.final_height()


async def revert_reason(rpc: ChainRpc, receipt: Receipt) -> str:
    """Why a transaction failed, by running it again before and after its block; best effort."""
    try:
        sent = await rpc.ask("eth_getTransactionByHash", receipt.hash)
        call = {name: sent[name] for name in ("from", "to", "value", "gas") if sent.get(name)}
        call["data"] = sent["input"]
        # What stopped it may have come earlier in the same block: then only the state after it shows the reason.
        for height in (receipt.block_number - 1, receipt.block_number):
            await rpc.ask("eth_call", call, hex(height))
    except RpcRefused as error:
        return decode_revert(error.data) or error.message
    except (RpcUnavailable, TypeError, KeyError) as error:
        return f"not readable ({type(error).__name__})"
    return "not to be found: the same call succeeds before and after its block"


def decode_revert(data: Any) -> str | None:
    """The text of `Error(string)`, the code of `Panic(uint256)`, or the selector of a custom error."""
    if not isinstance(data, str) or len(data) < len(_PANIC):
        return None
    selector, body = data[:10].lower(), data[10:]
    try:
        if selector == _ERROR_STRING:
            length = int(body[64:128], 16)
            return bytes.fromhex(body[128 : 128 + 2 * length]).decode(errors="replace")
        if selector == _PANIC:
            return f"panic {hex(int(body[:64], 16))}"
    except ValueError:
        return f"unreadable revert data {data[:74]}"
    return f"custom error {selector}"
