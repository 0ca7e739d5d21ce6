"""Receipts: is this one canonical, how deep is it buried, why did it revert."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from qtg_dagster.lanes.evm.endpoint import RpcRefused, RpcUnavailable, reading
from qtg_dagster.lanes.evm.rpc import ChainRpc

_ERROR_STRING = "0x08c379a0"
_PANIC = "0x4e487b71"
_HASH = re.compile(r"0x[0-9a-f]{64}")
_SHOWN_CHARACTERS = 100
#: Error code of what cannot be concluded because a receipt does not tell.
STATUS_ODD = "RECEIPT_STATUS_ODD"


class Outcome(StrEnum):
    """What a receipt says of its transaction."""

    SUCCEEDED = "succeeded"
    REVERTED = "reverted"
    NOT_TOLD = "not_told"  # another status or none, as before Byzantium: it may have moved money, and it may not


#: The two statuses there are, spelled as the protocol spells quantities; everything else tells nothing.
_OUTCOMES = {"0x1": Outcome.SUCCEEDED, "0x0": Outcome.REVERTED}


@dataclass(frozen=True, slots=True)
class Receipt:
    """A mined transaction's outcome. `raw` is the node's own document."""

    hash: str
    block_number: int
    block_hash: str
    outcome: Outcome
    fee_wei: int
    raw: dict[str, Any]

    @classmethod
    def of(cls, raw: dict[str, Any], *, source: str) -> Receipt:
        """Raises `RpcUnavailable` for a document that is not made like a receipt; an odd status is still a receipt."""
        with reading(source, "the receipt"):
            status = raw.get("status")
            return cls(
                hash=_hash(raw["transactionHash"]),
                block_number=int(raw["blockNumber"], 16),
                block_hash=_hash(raw["blockHash"]),
                outcome=_OUTCOMES.get(status, Outcome.NOT_TOLD) if isinstance(status, str) else Outcome.NOT_TOLD,
                fee_wei=int(raw["gasUsed"], 16) * int(raw.get("effectiveGasPrice") or "0x0", 16),
                raw={**raw, "logs": [_log(log) for log in raw["logs"]]},
            )

    @property
    def succeeded(self) -> bool:
        return self.outcome is Outcome.SUCCEEDED

    def refs(self) -> dict[str, str]:
        return {"tx_hash": self.hash, "block_number": str(self.block_number), "block_hash": self.block_hash}

    def told(self) -> dict[str, int | str]:
        """Evidence of the outcome: `status` 1 or 0, or the `odd_status` as the node gave it."""
        if self.outcome is not Outcome.NOT_TOLD:
            return {"status": int(self.succeeded)}
        told: dict[str, int | str] = {"odd_status": _shown(self.raw["status"]) if "status" in self.raw else "missing"}
        if "root" in self.raw:
            told["root"] = _shown(self.raw["root"])
        return told

    def oddity(self) -> str:
        """What to tell people of an outcome that is not told."""
        return (
            f"the receipt's status is {self.told().get('odd_status')}, neither 0x1 nor 0x0: it may have moved money; "
            "ask another node and compare both balances before anything is paid again"
        )


async def find_receipt(rpc: ChainRpc, tx_hash: str) -> Receipt | None:
    """The receipt from whichever endpoint has one; None only when every endpoint was asked and has none."""
    try:
        raw = await rpc.ask("eth_getTransactionReceipt", tx_hash)
    except (RpcUnavailable, RpcRefused):
        raw = None
    if raw is None:
        raw = next(filter(None, await rpc.ask_all("eth_getTransactionReceipt", tx_hash)), None)
    with reading(rpc.key, "the receipt"):
        mined = bool(raw) and raw.get("blockNumber") is not None
    if not mined:
        return None
    receipt = Receipt.of(raw, source=rpc.key)
    if receipt.hash != tx_hash.lower():
        raise RpcUnavailable(rpc.key, f"gives the receipt of {receipt.hash} for {tx_hash}")
    return receipt


def _hash(value: Any) -> str:
    text = str(value).lower()
    if not _HASH.fullmatch(text):
        raise ValueError(f"{text[:_SHOWN_CHARACTERS]} is no hash")
    return text


def _log(log: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(log["topics"], list):
        raise TypeError("a log's topics are no list")
    return {**log, "address": str(log["address"]), "topics": [str(topic) for topic in log["topics"]]}


def _shown(value: Any) -> str:
    return json.dumps(value)[:_SHOWN_CHARACTERS]


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
