"""The few words of ERC-20 that this lane speaks, spelled as bytes."""

from __future__ import annotations

from typing import Any

from qtg_dagster.lanes.evm.endpoint import reading

#: keccak("transfer(address,uint256)")[:4], keccak("balanceOf(address)")[:4], keccak("decimals()")[:4]
TRANSFER = "a9059cbb"
BALANCE_OF = "70a08231"
DECIMALS = "313ce567"
#: keccak("Transfer(address,address,uint256)")
TRANSFER_TOPIC = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
TRANSFER_TOPICS = 3


def transfer_call(recipient: str, base_units: int) -> str:
    """Calldata of `transfer(recipient, base_units)`."""
    return "0x" + TRANSFER + _address_word(recipient) + format(base_units, "064x")


def balance_call(owner: str) -> str:
    """Calldata of `balanceOf(owner)`."""
    return "0x" + BALANCE_OF + _address_word(owner)


def decimals_call() -> str:
    """Calldata of `decimals()`."""
    return "0x" + DECIMALS


def transferred(receipt: dict[str, Any], *, token: str, recipient: str, sender: str | None = None) -> int:
    """Base units that the receipt's Transfer logs of `token` moved to `recipient` (from `sender`, when named).

    Raises `RpcUnavailable` when one of them has no readable amount.
    """
    total = 0
    for log in receipt["logs"]:
        topics = [str(topic).lower() for topic in log["topics"]]
        if str(log["address"]).lower() != token or len(topics) != TRANSFER_TOPICS or topics[0] != TRANSFER_TOPIC:
            continue
        if topics[2][-40:] == recipient[2:] and (sender is None or topics[1][-40:] == sender[2:]):
            with reading(token, "the amount of its Transfer log"):
                total += int(log["data"], 16)
    return total


def _address_word(address: str) -> str:
    return address.lower().removeprefix("0x").rjust(64, "0")
