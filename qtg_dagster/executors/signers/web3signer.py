"""A signer behind Web3Signer in its eth1 mode.

Asked by `eth_signTransaction`, which returns a signed transaction: Web3Signer then sees what it signs, and builds the
bytes itself. Its other way, `POST /api/v1/eth1/sign/{identifier}`, signs any bytes that it is given. The chain id is
not in the call but in Web3Signer's own configuration, so it is checked in the answer like every other field.
"""

from __future__ import annotations

import asyncio
from typing import Any

from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.executors.addresses import ServiceAddress
from qtg_dagster.executors.signers.guarded import Agreed, GuardedSigner, SignerUnavailable
from qtg_dagster.executors.signers.journal import SignerJournal
from qtg_dagster.executors.signers.json_rpc import JsonRpcCaller
from qtg_dagster.inventory import Inventory, Web3SignerEntry


class Web3Signer(GuardedSigner):
    """Asks a Web3Signer, once for each signature."""

    def __init__(self, key: str, entry: Web3SignerEntry, inventory: Inventory, journal: SignerJournal) -> None:
        super().__init__(key, entry, inventory, journal)
        self._entry = entry
        self._caller: JsonRpcCaller | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        if self._caller is not None:
            await self._caller.close()

    async def _sender(self) -> str:
        return self._entry.address

    async def _sign(self, agreed: Agreed) -> str:
        signed = await (await self._open()).call("eth_signTransaction", [_transaction(agreed)])
        if not isinstance(signed, str):
            raise SigningRefused(f"{self._key}: the answer to eth_signTransaction is no text")
        return signed

    async def _observe(self) -> str:
        """Our address when Web3Signer has its key; the one other key's when it has just that."""
        accounts = await (await self._open()).call("eth_accounts", [])
        found = [each.lower() for each in accounts if isinstance(each, str)] if isinstance(accounts, list) else []
        if self._entry.address in found:
            return self._entry.address
        if len(found) == 1:
            return found[0]
        raise SignerUnavailable(f"{self._key}: Web3Signer has no key of {self._entry.address}, but {len(found)} others")

    async def _open(self) -> JsonRpcCaller:
        async with self._opening:
            if self._caller is None:
                # Reads certificates: files.
                self._caller = await asyncio.to_thread(self._new_caller)
            return self._caller

    def _new_caller(self) -> JsonRpcCaller:
        entry = self._entry
        address = ServiceAddress.read(entry.url, ca_file=entry.ca_file, field=f"signers.{self._key}.url")
        return JsonRpcCaller(self._key, address, entry.timeout_seconds, entry.client_certificate)


def _transaction(agreed: Agreed) -> dict[str, Any]:
    """The fields that the wire has; both fee fields make it sign type 2."""
    read = agreed.read
    return {
        "from": agreed.sender,
        "to": read.to,
        "nonce": hex(read.nonce),
        "value": hex(read.value),
        "data": read.data,
        "gas": hex(read.gas),
        "maxFeePerGas": hex(read.max_fee_per_gas),
        "maxPriorityFeePerGas": hex(read.max_priority_fee_per_gas),
    }
