"""Web3Signer is asked by its published JSON-RPC, and its transaction is checked field by field before it counts."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.signers.building import build_signer
from qtg_dagster.executors.signers.encoding import check_signed
from qtg_dagster.executors.signers.guarded import SignerUnavailable
from qtg_dagster.executors.signers.reading import read_payload
from tests.executors.signers.conftest import POLICY, SIGNER, inventory_with
from tests.executors.signers.services import (
    ADDRESS,
    OTHERS_ADDRESS,
    OTHERS_KEY,
    STRANGER,
    TEN_MEGABYTES,
    Web3SignerService,
)

FRIEND = "0x" + "5a" * 20


@pytest.fixture
async def service() -> AsyncIterator[Web3SignerService]:
    service = Web3SignerService()
    async with service.serving():
        yield service


def desk_with(desk: Any, **changes: Any) -> Any:
    entry = {"kind": "web3signer", "address": ADDRESS, "timeout_seconds": 0.5, "policy": POLICY} | changes
    desk.inventory = inventory_with(desk.inventory, entry, entry["address"])
    desk.signer = build_signer(SIGNER, desk.inventory.signers[SIGNER], desk.inventory, desk.journal)
    return desk


@pytest.fixture
async def desk(signing_desk: Any, service: Web3SignerService) -> AsyncIterator[Any]:
    yield desk_with(signing_desk, url=service.url)
    await signing_desk.signer.close()


async def test_it_signs_what_was_agreed(desk: Any, service: Web3SignerService) -> None:
    request = desk.request()
    signed = await desk.signer.sign(request)
    assert (
        check_signed(signed.signed_payload, read_payload(request.payload), ADDRESS) == signed.provider_refs["tx_hash"]
    )
    (call,) = service.asked
    assert (call["jsonrpc"], call["method"]) == ("2.0", "eth_signTransaction")
    (fields,) = call["params"]
    assert fields == {
        "from": ADDRESS,
        "to": "0x" + "c0" * 20,
        "nonce": "0x7",
        "value": "0x0",
        "data": "0xa9059cbb" + FRIEND[2:].rjust(64, "0") + format(12_500_000, "064x"),
        "gas": hex(70_000),
        "maxFeePerGas": hex(2 * 10**9),
        "maxPriorityFeePerGas": hex(10**9),
    }


async def test_it_signs_native_transfers(desk: Any) -> None:
    request = desk.request(
        transaction={"to": FRIEND, "value": str(10**17), "data": "0x"}, intent={"asset": "ETH", "amount": "0.1"}
    )
    assert (await desk.signer.sign(request)).signer_address == ADDRESS


@pytest.mark.parametrize(
    ("instead", "named"),
    [
        ({"to": STRANGER}, "to is"),
        ({"data": "0xa9059cbb" + STRANGER[2:].rjust(64, "0") + format(12_500_000, "064x")}, "data is"),
        ({"nonce": 8}, "nonce is"),
        ({"value": 1}, "value is"),
        ({"gas": 21_000}, "gas is"),
        ({"maxFeePerGas": 10**12}, "max_fee_per_gas is"),
        ({"accessList": [{"address": STRANGER, "storageKeys": []}]}, "access_list is"),
    ],
)
async def test_another_transaction_than_was_asked_for_is_refused(
    desk: Any, service: Web3SignerService, instead: dict[str, Any], named: str
) -> None:
    service.instead = instead
    with pytest.raises(SigningRefused, match=named):
        await desk.signer.sign(desk.request())


async def test_one_that_was_started_for_another_chain_is_refused(desk: Any, service: Web3SignerService) -> None:
    service.chain_id = 1
    with pytest.raises(SigningRefused, match="chain_id is 0x01"):
        await desk.signer.sign(desk.request())


async def test_a_signature_by_another_key_is_refused(desk: Any, service: Web3SignerService) -> None:
    service.key = OTHERS_KEY
    with pytest.raises(SigningRefused, match=f"signed by {OTHERS_ADDRESS}"):
        await desk.signer.sign(desk.request())


@pytest.mark.parametrize("result", [None, 7, {}, ["0x02"], "", "0x", "0x02c0", "hello"])
async def test_a_result_that_is_no_transaction_is_refused(desk: Any, service: Web3SignerService, result: Any) -> None:
    service.document = {"result": result}
    with pytest.raises(SigningRefused):
        await desk.signer.sign(desk.request())


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_an_error_that_answers_the_call_is_a_refusal(desk: Any, service: Web3SignerService, status: int) -> None:
    service.addresses, service.error_status = [OTHERS_ADDRESS], status
    with pytest.raises(SigningRefused, match=f"JSON-RPC error -32000 \\(HTTP {status}\\)"):
        await desk.signer.sign(desk.request())


@pytest.mark.parametrize(
    "document",
    [
        {"error": {"code": -32603, "message": "Internal error"}},
        {"error": "no"},
        {"id": 2},
        {"jsonrpc": "1.0"},
    ],
)
async def test_what_does_not_answer_the_call_may_pass(
    desk: Any, service: Web3SignerService, document: dict[str, Any]
) -> None:
    service.document = document
    with pytest.raises(SignerUnavailable):
        await desk.signer.sign(desk.request())


async def test_a_result_beside_an_error_is_no_signature(desk: Any, service: Web3SignerService) -> None:
    service.document = {"error": {"code": -32000, "message": "x"}}
    with pytest.raises(SigningRefused, match="-32000"):
        await desk.signer.sign(desk.request())


@pytest.mark.parametrize(
    ("trick", "reason"),
    [
        ("redirect", "redirects are not followed"),
        ("hang", "no whole answer within 0.5 s"),
        ("hang half-way", "no whole answer within 0.5 s"),
        ("ten megabytes", "longer than 65536 bytes"),
        ("not json", "without an answer to this call"),
        ("broken", "HTTP 500 without an answer"),
    ],
)
async def test_no_answer_that_counts_is_no_signature(
    desk: Any, service: Web3SignerService, trick: str, reason: str
) -> None:
    service.trick = trick
    with pytest.raises(SignerUnavailable, match=reason):
        await desk.signer.sign(desk.request())
    report = await desk.signer.health()
    assert report.health_state == "down"
    assert reason in report.detail
    assert service.elsewhere == 0
    assert service.written < TEN_MEGABYTES
    service.trick = ""
    assert (await desk.signer.sign(desk.request())).signer_address == ADDRESS, "it may be asked again"


async def test_health_shows_the_address_and_signs_nothing(desk: Any, service: Web3SignerService) -> None:
    service.addresses = [OTHERS_ADDRESS, "0x" + ADDRESS[2:].upper()]
    report = await desk.signer.health()
    assert (report.health_state, report.signer_address) == ("healthy", ADDRESS)
    assert service.signatures == 0


@pytest.mark.parametrize(
    ("addresses", "seen", "reason"),
    [
        ([OTHERS_ADDRESS], OTHERS_ADDRESS, "accounts treasury"),
        ([OTHERS_ADDRESS, STRANGER], None, "has no key of"),
        ([], None, "has no key of"),
        ("0x", None, "has no key of"),
    ],
)
async def test_one_without_the_key_is_down(
    desk: Any, service: Web3SignerService, addresses: Any, seen: str | None, reason: str
) -> None:
    service.addresses = addresses
    report = await desk.signer.health()
    assert (report.health_state, report.signer_address) == ("down", seen)
    assert reason in report.detail


def make_certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate for this machine and its key, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / f"{name}.pem"
    file.write_bytes(certificate.public_bytes(pem) + private)
    return file


async def test_it_shows_its_certificate_and_trusts_no_other_than_the_named_one(
    signing_desk: Any, tmp_path: Path
) -> None:
    ours, theirs, stranger = (make_certificate(tmp_path, name) for name in ("ours", "theirs", "stranger"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(theirs)
    context.load_verify_locations(ours)
    context.verify_mode = ssl.CERT_REQUIRED
    service = Web3SignerService()
    async with service.serving(context):
        right = {"url": service.url, "ca_file": str(theirs), "client_certificate": str(ours), "timeout_seconds": 5}
        for wrong in ({"client_certificate": None}, {"client_certificate": str(stranger)}, {"ca_file": str(stranger)}):
            desk = desk_with(signing_desk, **(right | wrong))
            with pytest.raises(SignerUnavailable):
                await desk.signer.sign(desk.request())
            await desk.signer.close()
        assert service.asked == []
        desk = desk_with(signing_desk, **right)
        assert (await desk.signer.sign(desk.request())).signer_address == ADDRESS
        await desk.signer.close()


async def test_a_certificate_that_cannot_be_read_is_named(signing_desk: Any, tmp_path: Path) -> None:
    desk = desk_with(signing_desk, url="https://127.0.0.1:1", client_certificate=str(tmp_path / "absent.pem"))
    with pytest.raises(ConfigurationError, match="client_certificate"):
        await desk.signer.sign(desk.request())
    report = await desk.signer.health()
    assert report.health_state == "down"
    assert "client_certificate" in report.detail


async def test_what_the_service_says_is_not_repeated(
    desk: Any, service: Web3SignerService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    canary = "canary-in-an-error-4711"
    service.document = {"error": {"code": -32000, "message": canary}}
    with pytest.raises(SigningRefused) as failure:
        await desk.signer.sign(desk.request())
    shown = "".join(traceback.format_exception(failure.value)) + caplog.text + repr(await desk.signer.health())
    assert canary not in shown
