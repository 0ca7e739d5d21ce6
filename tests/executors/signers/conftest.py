"""Signers of every kind over what really holds their keys, or stands in for it over its real wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer

from qtg_dagster.inventory import AnySignerEntry, Inventory
from tests.executors.signers.kms import KmsHolder

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
