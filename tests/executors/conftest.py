"""A signer with a real keystore, a policy, and a journal in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import SigningIntent, SignRequest, payload_hash
from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.executors.signers.local import LocalKeystoreSigner, build_signer
from qtg_dagster.inventory import Inventory

KEY = "0x" + "4c" * 32
PASSPHRASE = "correct horse battery staple"
ADDRESS = str(Account.from_key(KEY).address).lower()
CHAIN = "eip155:31337"
NODE = "11111111-1111-1111-1111-111111111111"
FRIEND, STRANGER = "0x" + "5a" * 20, "0x" + "66" * 20
USDC, DAI = "0x" + "c0" * 20, "0x" + "da" * 20
SIGNER = "signer.local.treasury"


def transfer_data(recipient: str, units: int) -> str:
    return "0xa9059cbb" + recipient[2:].rjust(64, "0") + format(units, "064x")


@dataclass
class MemoryJournal:
    by_nonce: dict[tuple[str, str, int], str] = field(default_factory=dict)
    by_role: dict[tuple[str, str], str] = field(default_factory=dict)
    fills: dict[tuple[str, str, int], tuple[str, str, str]] = field(default_factory=dict)
    spent: dict[tuple[str, str], dict[tuple[str, int], int]] = field(default_factory=dict)

    async def spend(
        self, *, chain: str, sender: str, nonce: int, asset: str, units: int, daily_units: int, at_most: str
    ) -> None:
        spent = {**self.spent.get((sender, asset), {}), (chain, nonce): units}
        if sum(spent.values()) > daily_units:
            raise SigningRefused(f"policy.daily.{asset}: no more than {at_most} is signed for in one day (UTC)")
        self.spent[sender, asset] = spent

    async def record(
        self, *, chain: str, sender: str, nonce: int, request_node_id: str, role: str, effect_hash: str
    ) -> None:
        if (chain, sender, nonce) in self.fills:
            raise SigningRefused(f"nonce {nonce} has signed another effect, which fills it")
        if self.by_nonce.setdefault((chain, sender, nonce), effect_hash) != effect_hash:
            raise SigningRefused(f"nonce {nonce} has signed another effect")
        if self.by_role.setdefault((request_node_id, role), effect_hash) != effect_hash:
            raise SigningRefused(f"{role} has signed another effect")

    async def record_fill(
        self, *, chain: str, sender: str, nonce: int, request_node_id: str, role: str, effect_hash: str
    ) -> None:
        if (chain, sender, nonce) not in self.by_nonce:
            raise SigningRefused(f"nonce {nonce}: this signer has signed nothing under it")
        self.fills[chain, sender, nonce] = (request_node_id, role, effect_hash)


@dataclass
class SigningDesk:
    """A signer and the means to ask it for the right thing, or for a wrong one."""

    signer: LocalKeystoreSigner
    journal: MemoryJournal
    inventory: Inventory
    folder: Path

    def request(
        self,
        *,
        transaction: dict[str, str] | None = None,
        intent: dict[str, str] | None = None,
        payload: dict[str, Any] | None = None,
        request: dict[str, Any] | None = None,
    ) -> SignRequest:
        """12.5 USDC to a friend; every part can be overridden."""
        fields = {
            "chain_id": "31337",
            "nonce": "7",
            "to": USDC,
            "value": "0",
            "data": transfer_data(FRIEND, 12_500_000),
            "gas": "70000",
            "max_fee_per_gas": "2000000000",
            "max_priority_fee_per_gas": "1000000000",
        }
        document = {"request_node_id": NODE, "attempt_no": 1, "transaction": fields | (transaction or {})}
        text = canonical_json(document | (payload or {}))
        hashed = payload_hash(text)
        wanted = {"action": "evm_transfer", "asset": "USDC", "amount": "12.5", "destination": FRIEND}
        return SignRequest.model_validate(
            {
                "request_id": "22222222-2222-2222-2222-222222222222",
                "request_node_id": NODE,
                "signing_intent": SigningIntent.model_validate(
                    {"allowed_payload_hash": hashed} | wanted | (intent or {})
                ),
                "payload_format": "evm.eip1559.v1",
                "payload": text,
                "payload_hash": hashed,
                "metadata": {"chain": CHAIN},
            }
            | (request or {})
        )


@pytest.fixture
def signing_desk(tmp_path: Path) -> SigningDesk:
    return make_desk(tmp_path)


@pytest.fixture
def make_signing_desk(tmp_path: Path) -> Callable[..., SigningDesk]:
    return lambda **changes: make_desk(tmp_path, **changes)


def make_desk(folder: Path, policy: dict[str, Any] | None = None, account: str = ADDRESS) -> SigningDesk:
    (folder / "keystore.json").write_text(json.dumps(Account.encrypt(KEY, PASSPHRASE, kdf="pbkdf2", iterations=1)))
    (folder / "passphrase").write_text(PASSPHRASE + "\n")
    assets = {"ETH": 18, "USDC": 6, "DAI": 18}
    inventory = Inventory.model_validate(
        {
            "assets": {key: {"symbol": key, "decimals": decimals} for key, decimals in assets.items()},
            "chains": {
                chain: {
                    "name": chain,
                    "rpc_urls": ["http://127.0.0.1:1"],
                    "native_asset": "ETH",
                    "tokens": {"USDC": USDC, "DAI": DAI},
                    "max_fee_gwei": 100,
                }
                for chain in (CHAIN, "eip155:10")
            },
            "accounts": {"treasury": {"chain": CHAIN, "address": account, "signer": SIGNER}},
            "signers": {
                SIGNER: {
                    "keystore": str(folder / "keystore.json"),
                    "passphrase": {"file": str(folder / "passphrase")},
                    "policy": {"destinations": [FRIEND], "caps": {"USDC": "100", "ETH": "1"}, "max_fee_native": "0.01"}
                    if policy is None
                    else policy,
                }
            },
        }
    )
    journal = MemoryJournal()
    signer = build_signer(SIGNER, inventory.signers[SIGNER], inventory, journal)
    return SigningDesk(signer=signer, journal=journal, inventory=inventory, folder=folder)
