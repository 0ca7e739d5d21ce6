"""Whom did a transaction pay? Read from the chain's own record, for those who were told its hash by somebody else."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.lanes.evm import erc20
from qtg_dagster.lanes.evm.endpoint import RpcUnavailable, reading
from qtg_dagster.lanes.evm.receipts import Receipt, confirmations, find_receipt, is_final
from qtg_dagster.lanes.evm.rpc import ChainRpc, Chains
from qtg_dagster.lanes.evm.terms import asset_on_chain

_ADDRESS = re.compile(r"0x[0-9a-f]{40}")
_NO_CODE = "0x"


@dataclass(frozen=True, slots=True)
class Payment:
    """What one transaction moved, and to whom."""

    recipient: str
    base_units: int


class Payments:
    """Answers for every chain of the inventory; a doubt is no answer."""

    def __init__(self, chains: Chains) -> None:
        self._chains = chains

    async def paid_to(
        self, *, chain: str, asset: str, tx_hash: str, amounts: Collection[Decimal], destination: str
    ) -> str | None:
        """The one address that a final, successful transaction paid exactly one of the amounts of the asset, else None.

        Tokens are told by their only Transfer log: beside a second one, nobody can say which was meant. Coins are told
        by the transaction itself: what a contract did with them is not on the record, so one that is not `destination`
        tells nothing. Raises `NotFound` or `InvalidInput` for a chain or an asset on it that the inventory does not
        have, and what endpoints raise.
        """
        rpc = self._chains[chain]
        moved = asset_on_chain(self._chains.inventory, chain, asset)
        receipt = await find_receipt(rpc, tx_hash)
        if receipt is None or not receipt.succeeded or not await _stands(rpc, receipt):
            return None
        paid = await _coins(rpc, receipt) if moved.token is None else only_transfer(receipt.raw, moved.token)
        if paid is None or Decimal(Amount(moved.asset, paid.base_units).to_text()) not in amounts:
            return None
        if moved.token is not None or paid.recipient == destination.lower():
            return paid.recipient
        code = await rpc.ask("eth_getCode", paid.recipient, hex(receipt.block_number))
        return paid.recipient if code == _NO_CODE else None


def only_transfer(receipt: dict[str, Any], token: str) -> Payment | None:
    """The receipt's one Transfer of the token; None where there is none, another one, or one of another shape.

    Raises `RpcUnavailable` for a log that cannot be read.
    """
    logs = [log for log in receipt["logs"] if log["address"].lower() == token]
    with reading(token, "its Transfer log"):
        topics = [[topic.lower() for topic in log["topics"]] for log in logs]
        transfers = [
            (found, log) for found, log in zip(topics, logs, strict=True) if found[:1] == [erc20.TRANSFER_TOPIC]
        ]
        if len(transfers) != 1:
            return None
        ((found, log),) = transfers
        if len(found) != erc20.TRANSFER_TOPICS or log.get("removed"):
            return None
        word = int(found[2], 16)
        return Payment(_address(f"0x{word:040x}"), int(log["data"], 16))


async def _stands(rpc: ChainRpc, receipt: Receipt) -> bool:
    """Whether nothing can take the receipt's block back: final, as deep as is asked for, and on the chain."""
    return await is_final(rpc, receipt) and await confirmations(rpc, receipt) >= rpc.entry.confirmations


async def _coins(rpc: ChainRpc, receipt: Receipt) -> Payment | None:
    sent = await rpc.ask("eth_getTransactionByHash", receipt.hash)
    if sent is None:
        return None
    with reading(rpc.key, "the transaction"):
        if str(sent["hash"]).lower() != receipt.hash or str(sent["blockHash"]).lower() != receipt.block_hash:
            raise RpcUnavailable(rpc.key, f"gives another transaction than {receipt.hash} of {receipt.block_hash}")
        if sent.get("to") is None:
            return None
        return Payment(_address(str(sent["to"])), int(sent["value"], 16))


def _address(text: str) -> str:
    found = text.lower()
    if not _ADDRESS.fullmatch(found):
        raise ValueError(f"{found[:100]} is no address")
    return found
