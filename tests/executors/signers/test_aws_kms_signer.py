"""A signer whose key is in KMS: what KMS answers counts only when it is the expected key's signature."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from moto.kms.utils import ECDSAPrivateKey

from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.signers.building import build_signer
from qtg_dagster.executors.signers.encoding import CURVE_ORDER, check_signed
from qtg_dagster.executors.signers.guarded import SignerUnavailable
from qtg_dagster.executors.signers.reading import read_payload
from qtg_dagster.inventory import Inventory
from tests.executors.signers.conftest import AWS_CANARY, POLICY, SIGNER, inventory_with
from tests.executors.signers.kms import KmsHolder

HASHES_AGAIN = ECDSAPrivateKey.sign


def desk_of(desk: Any, kms: KmsHolder, key_id: str, **changes: Any) -> Any:
    entry = {"kind": "aws-kms", "key_id": key_id, "region": "eu-west-1", "endpoint_url": kms.url, "policy": POLICY}
    address = changes.pop("address", None) or kms.address_of(key_id)
    desk.inventory = inventory_with(desk.inventory, entry | changes, address)
    desk.signer = build_signer(SIGNER, desk.inventory.signers[SIGNER], desk.inventory, desk.journal)
    return desk


@pytest.mark.parametrize("form", ["low", "high"])
async def test_it_signs_what_was_agreed_in_the_low_form(signing_desk: Any, kms: KmsHolder, form: str) -> None:
    kms.form, key = form, kms.make_key()
    desk = desk_of(signing_desk, kms, key)
    request = desk.request()
    signed = await desk.signer.sign(request)
    assert signed.signer_address == kms.address_of(key)
    read = read_payload(request.payload)
    assert check_signed(signed.signed_payload, read, kms.address_of(key)) == signed.provider_refs["tx_hash"]
    assert kms.asked == [{"KeyId": key, "MessageType": "DIGEST", "SigningAlgorithm": "ECDSA_SHA_256"}]


async def test_both_parities_are_found(signing_desk: Any, kms: KmsHolder) -> None:
    """KMS picks a random nonce for each signature, so that some of these have either parity."""
    desk = desk_of(signing_desk, kms, kms.make_key())
    endings = {(await desk.signer.sign(desk.request())).signed_payload for _ in range(24)}
    parities = {bytes.fromhex(signed[2:])[-67] for signed in endings if len(signed) == max(map(len, endings))}
    assert parities == {0x80, 0x01}


async def test_a_digest_that_is_hashed_again_is_refused(
    signing_desk: Any, kms: KmsHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ECDSAPrivateKey, "sign", HASHES_AGAIN)
    desk = desk_of(signing_desk, kms, kms.make_key())
    with pytest.raises(SigningRefused, match="with another key"):
        await desk.signer.sign(desk.request())


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        (b"\x30\x00", "not a DER signature"),
        (b"nonsense", "not a DER signature"),
        (encode_dss_signature(0, 1), "outside the curve's order"),
        (encode_dss_signature(1, CURVE_ORDER), "outside the curve's order"),
        (encode_dss_signature(1, 1), "with another key"),
        (encode_dss_signature(5, 1), "with another key"),
    ],
)
async def test_what_is_no_signature_is_refused(signing_desk: Any, kms: KmsHolder, forged: bytes, reason: str) -> None:
    kms.forged = forged
    desk = desk_of(signing_desk, kms, kms.make_key())
    with pytest.raises(SigningRefused, match=reason):
        await desk.signer.sign(desk.request())


async def test_a_key_that_is_not_the_accounts_is_refused_unasked(signing_desk: Any, kms: KmsHolder) -> None:
    desk = desk_of(signing_desk, kms, kms.make_key(), address="0x" + "66" * 20)
    with pytest.raises(SigningRefused, match="is no account of this signer"):
        await desk.signer.sign(desk.request())
    assert kms.asked == []
    report = await desk.signer.health()
    assert report.health_state == "down"
    assert "treasury" in report.detail


async def test_an_alias_that_was_pointed_at_another_key_signs_nothing(signing_desk: Any, kms: KmsHolder) -> None:
    first, second = kms.make_key(), kms.make_key()
    kms.client.create_alias(AliasName="alias/moved", TargetKeyId=first)
    desk = desk_of(signing_desk, kms, "alias/moved", address=kms.address_of(first))
    assert (await desk.signer.health()).signer_address == kms.address_of(first)
    await desk.signer.sign(desk.request())
    kms.client.update_alias(AliasName="alias/moved", TargetKeyId=second)
    with pytest.raises(SigningRefused, match="with another key"):
        await desk.signer.sign(desk.request())
    report = await desk.signer.health()
    assert (report.health_state, report.signer_address) == ("down", kms.address_of(second))
    kms.client.delete_alias(AliasName="alias/moved")


@pytest.mark.parametrize(
    ("spec", "usage", "reason"),
    [
        ("ECC_NIST_P256", "SIGN_VERIFY", "ECC_SECG_P256K1"),
        ("RSA_2048", "SIGN_VERIFY", "ECC_SECG_P256K1"),
        ("RSA_2048", "ENCRYPT_DECRYPT", "SIGN_VERIFY"),
    ],
)
async def test_another_sort_of_key_is_named(
    signing_desk: Any, kms: KmsHolder, spec: str, usage: str, reason: str
) -> None:
    desk = desk_of(signing_desk, kms, kms.make_key(spec, usage), address="0x" + "66" * 20)
    with pytest.raises(ConfigurationError, match=reason):
        await desk.signer.sign(desk.request())
    report = await desk.signer.health()
    assert report.health_state == "down"
    assert reason in report.detail


async def test_health_shows_the_address_and_signs_nothing(signing_desk: Any, kms: KmsHolder) -> None:
    key = kms.make_key()
    report = await desk_of(signing_desk, kms, key).signer.health()
    assert (report.health_state, report.signer_address) == ("healthy", kms.address_of(key))
    assert kms.asked == []


async def test_a_missing_key_and_a_silent_endpoint_are_down_and_may_be_asked_again(
    signing_desk: Any, kms: KmsHolder
) -> None:
    absent = "00000000-0000-0000-0000-000000000000"
    for changes, reason in (({}, "NotFoundException"), ({"endpoint_url": "http://127.0.0.1:1"}, "EndpointConnection")):
        desk = desk_of(signing_desk, kms, absent, address="0x" + "66" * 20, **changes)
        with pytest.raises(SignerUnavailable, match=reason):
            await desk.signer.sign(desk.request())
        assert (await desk.signer.health()).health_state == "down"


async def test_the_credentials_never_show(signing_desk: Any, kms: KmsHolder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    desk = desk_of(signing_desk, kms, kms.make_key(), endpoint_url="http://127.0.0.1:1")
    with pytest.raises(SignerUnavailable) as failure:
        await desk.signer.sign(desk.request())
    shown = [repr(desk.signer), caplog.text, "".join(traceback.format_exception(failure.value))]
    shown.append(repr(await desk.signer.health()))
    assert not any(AWS_CANARY in text for text in shown)


async def test_a_missing_library_is_named(signing_desk: Any, kms: KmsHolder, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = desk_of(signing_desk, kms, kms.make_key())
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigurationError, match=r"install qtg-dagster\[aws\]"):
        await desk.signer.sign(desk.request())
    assert "boto3 is not installed" in (await desk.signer.health()).detail


async def test_a_slow_kms_stops_nothing_else(
    signing_desk: Any, kms: KmsHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its call waits in a thread while the loop goes on."""
    desk = desk_of(signing_desk, kms, kms.make_key())
    asked, answer = threading.Event(), threading.Event()
    honest = desk.signer._signature_of

    def held(client: Any, digest: bytes) -> bytes:
        asked.set()
        assert answer.wait(30)
        return bytes(honest(client, digest))

    monkeypatch.setattr(desk.signer, "_signature_of", held)
    signing = asyncio.create_task(desk.signer.sign(desk.request()))
    assert await asyncio.to_thread(asked.wait, 30)
    assert (await desk.signer.health()).health_state == "healthy"
    assert not signing.done()
    answer.set()
    assert (await signing).signer_key == SIGNER


def test_an_endpoint_without_tls_elsewhere_is_refused(signing_desk: Any) -> None:
    entry = {"kind": "aws-kms", "key_id": "k", "region": "r", "endpoint_url": "http://kms.example"}
    with pytest.raises(ValueError, match="https"):
        inventory_with(signing_desk.inventory, entry, "0x" + "66" * 20)


def test_an_unknown_kind_is_named(signing_desk: Any) -> None:
    with pytest.raises(ValueError, match="kind is none of"):
        Inventory.model_validate({"signers": {SIGNER: {"kind": "paper"}}})
