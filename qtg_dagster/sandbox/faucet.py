"""The sandbox's first account: anvil's well-known development key, which pays for everything that is set up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx

from qtg_dagster.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

#: Printed by anvil at every start and known to the whole world; it owns play money only.
DEV_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
_FEE_WEI = 10 * 10**9
_MINED_SECONDS = 20.0


class Faucet:
    """Sends set-up transactions one after another and waits for each to be mined."""

    def __init__(self, url: str, chain_id: int) -> None:
        from eth_account import Account

        self._http = httpx.Client(base_url=url, timeout=20, trust_env=False)
        self._chain_id = chain_id
        self._account: LocalAccount = Account.from_key(DEV_KEY)
        self.address = str(self._account.address).lower()

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, *params: Any) -> Any:
        """One JSON-RPC call; raises `ConfigurationError` with what the chain said."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        try:
            answer = self._http.post("", json=body).json()
        except (httpx.HTTPError, ValueError) as error:
            raise ConfigurationError(f"the sandbox chain does not answer {method}: {error}") from error
        if "error" in answer:
            raise ConfigurationError(f"the sandbox chain refuses {method}: {answer['error'].get('message')}")
        return answer["result"]

    def verify(self) -> None:
        """Raise `ConfigurationError` unless this is the sandbox chain: the development key is for nothing else."""
        served = int(self.call("eth_chainId"), 16)
        if served != self._chain_id:
            raise ConfigurationError(f"the sandbox chain should be eip155:{self._chain_id}, not eip155:{served}")

    def send(self, *, to: str | None, data: str = "0x", value: int = 0) -> dict[str, Any]:
        """Send and wait; returns the receipt, raises `ConfigurationError` when it reverts."""
        from eth_utils.address import to_checksum_address

        call: dict[str, Any] = {"from": self.address, "data": data, "value": hex(value)}
        if to is not None:
            call["to"] = to
        transaction: dict[str, Any] = {
            "type": 2,
            "chainId": self._chain_id,
            "nonce": int(self.call("eth_getTransactionCount", self.address, "pending"), 16),
            "value": value,
            "data": data,
            "gas": int(self.call("eth_estimateGas", call), 16) * 12 // 10,
            "maxFeePerGas": _FEE_WEI,
            "maxPriorityFeePerGas": 1,
        }
        if to is not None:
            transaction["to"] = to_checksum_address(to)
        signed = self._account.sign_transaction(transaction)
        tx_hash = self.call("eth_sendRawTransaction", "0x" + bytes(signed.raw_transaction).hex())
        return self._wait(tx_hash)

    def code_at(self, address: str) -> bool:
        """Whether a contract lives there."""
        return self.call("eth_getCode", address, "latest") not in ("0x", None)

    def _wait(self, tx_hash: str) -> dict[str, Any]:
        deadline = time.monotonic() + _MINED_SECONDS
        while time.monotonic() < deadline:
            receipt: dict[str, Any] | None = self.call("eth_getTransactionReceipt", tx_hash)
            if receipt is None:
                time.sleep(0.01)
            elif int(receipt["status"], 16) == 1:
                return receipt
            else:
                raise ConfigurationError(f"sandbox set-up: transaction {tx_hash} reverted")
        raise ConfigurationError(f"sandbox set-up: transaction {tx_hash} was not mined in {_MINED_SECONDS:g} s")
