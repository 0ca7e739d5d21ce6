"""A signing service is believed only as far as it signed the very transaction it was asked for."""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.signers.building import build_signer
from qtg_dagster.executors.signers.encoding import check_signed
from qtg_dagster.executors.signers.guarded import SignerUnavailable
from qtg_dagster.executors.signers.reading import read_payload
from qtg_dagster.inventory import Inventory
from tests.executors.signers.conftest import POLICY, SIGNER, inventory_with
from tests.executors.signers.services import (
    ADDRESS,
    OTHERS_ADDRESS,
    OTHERS_KEY,
    SECRET,
    STRANGER,
    TEN_MEGABYTES,
    SigningService,
)


@pytest.fixture
async def service() -> AsyncIterator[SigningService]:
    service = SigningService()
    async with service.serving():
        yield service


@pytest.fixture
async def desk(signing_desk: Any, service: SigningService, tmp_path: Path) -> AsyncIterator[Any]:
    (tmp_path / "hmac").write_text(SECRET)
    entry = {
        "kind": "remote",
        "url": service.url,
        "address": ADDRESS,
        "secret": {"file": str(tmp_path / "hmac")},
        "timeout_seconds": 0.5,
        "policy": POLICY,
    }
    signing_desk.inventory = inventory_with(signing_desk.inventory, entry, ADDRESS)
    inventory = signing_desk.inventory
    signing_desk.signer = build_signer(SIGNER, inventory.signers[SIGNER], inventory, signing_desk.journal)
    yield signing_desk
    await signing_desk.signer.close()


async def test_it_signs_what_was_agreed_through_the_service(desk: Any, service: SigningService) -> None:
    request = desk.request()
    signed = await desk.signer.sign(request)
    assert (
        check_signed(signed.signed_payload, read_payload(request.payload), ADDRESS) == signed.provider_refs["tx_hash"]
    )
    assert (signed.signer_key, signed.signer_address) == (SIGNER, ADDRESS)
    assert service.asked == [("/sign", request.model_dump_json().encode())]


@pytest.mark.parametrize(
    ("instead", "named"),
    [
        ({"to": STRANGER}, "to is"),
        ({"data": "0xa9059cbb" + STRANGER[2:].rjust(64, "0") + format(12_500_000, "064x")}, "data is"),
        ({"nonce": 8}, "nonce is"),
        ({"chainId": 1}, "chain_id is"),
        ({"value": 1}, "value is"),
        ({"maxFeePerGas": 10**12}, "max_fee_per_gas is"),
    ],
)
async def test_another_transaction_than_was_asked_for_is_refused(
    desk: Any, service: SigningService, instead: dict[str, Any], named: str
) -> None:
    service.instead = instead
    with pytest.raises(SigningRefused, match=named):
        await desk.signer.sign(desk.request())


async def test_a_signature_by_another_key_is_refused(desk: Any, service: SigningService) -> None:
    service.key = OTHERS_KEY
    with pytest.raises(SigningRefused, match=f"signed by {OTHERS_ADDRESS}"):
        await desk.signer.sign(desk.request())
    report = await desk.signer.health()
    assert (report.health_state, report.signer_address) == ("down", OTHERS_ADDRESS)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"payload_hash": "0" * 64}, "another payload"),
        ({"signer_address": STRANGER}, "as another address"),
        ({"signed_payload": "left out"}, "no SignedPayload"),
        ({"signed_payload": "0x02"}, "the signed bytes"),
        ({"error": "no"}, "no SignedPayload"),
    ],
)
async def test_an_answer_that_is_not_the_signature_is_refused(
    desk: Any, service: SigningService, document: dict[str, Any], reason: str
) -> None:
    service.document = document
    with pytest.raises(SigningRefused, match=reason):
        await desk.signer.sign(desk.request())


@pytest.mark.parametrize(
    ("document", "said"), [({}, "SAID: over the daily limit"), ({"protocol_version": "9"}, "without a reason")]
)
async def test_the_services_own_refusal_is_final(
    desk: Any, service: SigningService, document: dict[str, Any], said: str
) -> None:
    service.status, service.document = 403, document
    with pytest.raises(SigningRefused, match=f"HTTP 403, {said}"):
        await desk.signer.sign(desk.request())


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 429, 500, 503])
async def test_other_errors_may_pass(desk: Any, service: SigningService, status: int) -> None:
    service.status = status
    with pytest.raises(SignerUnavailable, match=f"HTTP {status}"):
        await desk.signer.sign(desk.request())
    assert (await desk.signer.health()).health_state == "down"


@pytest.mark.parametrize(
    ("trick", "reason"),
    [
        ("redirect", "redirects are not followed"),
        ("hang", "no whole answer within 0.5 s"),
        ("hang half-way", "no whole answer within 0.5 s"),
        ("ten megabytes", "longer than allowed"),
        ("not json", "without this service's signature"),
        ("broken", "without this service's signature"),
    ],
)
async def test_no_answer_that_counts_is_no_signature(
    desk: Any, service: SigningService, trick: str, reason: str
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


async def test_an_unsigned_answer_is_not_believed(desk: Any, service: SigningService) -> None:
    service.unsigned = True
    with pytest.raises(SignerUnavailable, match="without this service's signature"):
        await desk.signer.sign(desk.request())


async def test_another_secret_gets_no_signature(desk: Any, service: SigningService, tmp_path: Path) -> None:
    (tmp_path / "hmac").write_text("another-secret-that-is-as-long-as-the-first")
    with pytest.raises(SignerUnavailable, match="HTTP 401 without this service's signature"):
        await desk.signer.sign(desk.request())


async def test_health_shows_the_address_and_signs_nothing(desk: Any, service: SigningService) -> None:
    report = await desk.signer.health()
    assert (report.health_state, report.signer_address) == ("healthy", ADDRESS)
    assert service.signatures == 0


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"health_state": "degraded", "detail": "one vault of two"}, "degraded: one vault of two"),
        ({"signer_address": "left out"}, "does not say which address"),
        ({"mood": "fine"}, "not a HealthAnswer"),
    ],
)
async def test_an_unwell_service_is_down_with_its_reason(
    desk: Any, service: SigningService, document: dict[str, Any], reason: str
) -> None:
    service.document = document
    report = await desk.signer.health()
    assert report.health_state == "down"
    assert reason in report.detail


async def test_nobody_there_is_down(desk: Any, service: SigningService, tmp_path: Path) -> None:
    entry = desk.inventory.signers[SIGNER].model_copy(update={"url": "http://127.0.0.1:1"})
    signer = build_signer(SIGNER, entry, desk.inventory, desk.journal)
    with pytest.raises(SignerUnavailable, match="ConnectError"):
        await signer.sign(desk.request())
    assert (await signer.health()).health_state == "down"
    await signer.close()


async def test_the_secret_never_shows(desk: Any, service: SigningService, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    signed = await desk.signer.sign(desk.request())
    shown = [repr(signed), repr(desk.signer), repr(desk.inventory)]
    for trick in ("broken", "redirect", "not json"):
        service.trick = trick
        with pytest.raises(SignerUnavailable) as failure:
            await desk.signer.sign(desk.request())
        shown.append("".join(traceback.format_exception(failure.value)))
    shown += [caplog.text, repr(await desk.signer.health()), repr(service.asked)]
    assert not any(SECRET in text for text in shown)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"url": "http://signer.example"}, "https"),
        ({"url": "ftp://127.0.0.1"}, "https"),
        ({"address": STRANGER}, "accounts.treasury.address"),
        ({"address": "0x12"}, "address"),
        ({"secret": SECRET}, "secret"),
    ],
)
def test_a_wrong_entry_is_named_without_its_secret(
    desk: Any, changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    document = desk.inventory.model_dump(mode="json")
    document["signers"][SIGNER] |= changes
    (tmp_path / "inventory.yaml").write_text(json.dumps(document))
    with pytest.raises(ConfigurationError, match=named) as refusal:
        Inventory.load(tmp_path / "inventory.yaml")
    assert SECRET not in "".join(traceback.format_exception(refusal.value))
