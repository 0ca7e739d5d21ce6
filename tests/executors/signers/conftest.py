"""Signers of every kind over what really holds their keys, or stands in for it over its real wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from eth_account.signers.local import LocalAccount
from moto.server import ThreadedMotoServer

from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.executors.signers.building import build_signer
from qtg_dagster.inventory import AnySignerEntry, Inventory
from tests.executors.signers.kms import KmsHolder
from tests.executors.signers.services import ADDRESS, SECRET, SigningService, Web3SignerService

KINDS = ("local", "aws-kms", "remote", "web3signer")
SIGNER = "signer.local.treasury"
AWS_CANARY = "canary-aws-secret-4711"
POLICY = {"destinations": ["0x" + "5a" * 20], "caps": {"USDC": "100", "ETH": "1"}, "max_fee_native": "0.01"}


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def kms(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> KmsHolder:
    """A KMS with one secp256k1 key, which signs digests as AWS's does."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_CANARY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client = boto3.client(
        "kms", region_name="eu-west-1", endpoint_url=moto_url, config=Config(retries={"mode": "standard"})
    )
    holder = KmsHolder(moto_url, client)
    holder.install(monkeypatch)
    return holder


def inventory_with(inventory: Inventory, entry: dict[str, Any], address: str) -> Inventory:
    """The desk's inventory with another signer, whose account is at `address`."""
    document = inventory.model_dump(mode="json")
    document["signers"] = {SIGNER: entry}
    document["accounts"]["treasury"]["address"] = address
    return Inventory.model_validate(document)


def entry_of(inventory: Inventory) -> AnySignerEntry:
    return inventory.signers[SIGNER]


class Holder:
    """A signer of some kind, and how often the party that holds its key was asked to use it."""

    def __init__(self, desk: Any, used: Callable[[], int]) -> None:
        self.desk, self.signer, self.request, self.journal = desk, desk.signer, desk.request, desk.journal
        self.used = used

    async def replace_policy(self, policy: dict[str, Any]) -> None:
        """The same signer under another policy."""
        inventory = self.desk.inventory
        document = inventory.model_dump(mode="json")["signers"][SIGNER] | {"policy": policy}
        inventory = inventory_with(inventory, document, inventory.accounts["treasury"].address)
        await self.signer.close()
        self.desk.inventory = inventory
        self.desk.signer = self.signer = build_signer(SIGNER, inventory.signers[SIGNER], inventory, self.journal)

    async def refuses(self, request: Any) -> str:
        """The reason; neither key nor journal has seen anything of it."""
        used, journal = self.used(), dict(self.journal.by_nonce)
        with pytest.raises(SigningRefused) as refusal:
            await self.signer.sign(request)
        assert self.used() == used, "the key was used for what is refused"
        assert self.journal.by_nonce == journal
        return str(refusal.value)


@pytest.fixture(params=KINDS)
async def holder(request: pytest.FixtureRequest, signing_desk: Any, tmp_path: Path) -> AsyncIterator[Holder]:
    kind, address, used = request.param, ADDRESS, lambda: 0
    serving: Any = None
    entry: dict[str, Any] = {"kind": kind, "policy": POLICY, "timeout_seconds": 5}
    if kind == "local":
        entry = signing_desk.inventory.model_dump(mode="json")["signers"][SIGNER]
        used = counted(request.getfixturevalue("monkeypatch"))
    elif kind == "aws-kms":
        kms: KmsHolder = request.getfixturevalue("kms")
        key = kms.make_key()
        address = kms.address_of(key)
        entry |= {"key_id": key, "region": "eu-west-1", "endpoint_url": kms.url}
        used = lambda: len(kms.asked)  # noqa: E731
    else:
        service = SigningService() if kind == "remote" else Web3SignerService()
        serving = service.serving()
        await serving.__aenter__()
        (tmp_path / "hmac").write_text(SECRET)
        secret = {"secret": {"file": str(tmp_path / "hmac")}} if kind == "remote" else {}
        entry |= {"url": service.url, "address": ADDRESS} | secret
        used = lambda: service.signatures  # noqa: E731
    signing_desk.inventory = inventory_with(signing_desk.inventory, entry, address)
    inventory = signing_desk.inventory
    signing_desk.signer = build_signer(SIGNER, inventory.signers[SIGNER], inventory, signing_desk.journal)
    yield Holder(signing_desk, used)
    await signing_desk.signer.close()
    if serving is not None:
        await serving.__aexit__(None, None, None)


def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    calls: list[object] = []
    honest = LocalAccount.sign_transaction

    def noted(account: LocalAccount, *arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        return honest(account, *arguments, **named)

    monkeypatch.setattr(LocalAccount, "sign_transaction", noted)
    return lambda: len(calls)
