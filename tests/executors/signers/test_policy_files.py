"""A policy file is in force only while its signature is right; otherwise its signers sign nothing and say why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.signers.building import build_signer
from qtg_dagster.executors.signers.policy_file import parse_policy, sign_policy, verify_policy
from qtg_dagster.inventory import Inventory
from qtg_dagster.signatures import public_key_of
from tests.executors.signers.conftest import POLICY, SIGNER

KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
STRANGERS_KEY = Ed25519PrivateKey.from_private_bytes(b"\x08" * 32)


def document(**changes: Any) -> dict[str, Any]:
    return {"format": "qtg.signer-policy.v1", "serial": 3, "signers": {SIGNER: POLICY}} | changes


def text(**changes: Any) -> bytes:
    return yaml.safe_dump(document(**changes)).encode()


class Desk:
    """The local signer's desk with a policy file."""

    def __init__(self, desk: Any, folder: Path, **entry: Any) -> None:
        self.file, self.signature = folder / "policy.yaml", folder / "policy.yaml.sig"
        inventory = desk.inventory.model_dump(mode="json")
        wanted = {"file": str(self.file), "public_key": public_key_of(KEY)} | entry
        inventory["signers"][SIGNER] |= {"policy": {}, "policy_file": wanted}
        self.inventory = Inventory.model_validate(inventory)
        self.journal, self.request = desk.journal, desk.request
        self.signer = build_signer(SIGNER, self.inventory.signers[SIGNER], self.inventory, desk.journal)

    def write(self, content: bytes, key: Ed25519PrivateKey = KEY) -> None:
        self.file.write_bytes(content)
        self.signature.write_text(sign_policy(content, key) + "\n")

    async def refusal(self) -> str:
        """Why it signs nothing; its health says the same, and its journal holds nothing."""
        with pytest.raises(SigningRefused) as refusal:
            await self.signer.sign(self.request())
        report = await self.signer.health()
        assert report is not None
        assert (report.health_state, report.detail) == ("down", str(refusal.value))
        assert report.signer_address is not None
        assert self.journal.by_nonce == {}
        return str(refusal.value)


@pytest.fixture
def desk(signing_desk: Any, tmp_path: Path) -> Desk:
    return Desk(signing_desk, tmp_path)


@pytest.mark.parametrize("spelled", [yaml.safe_dump, json.dumps])
async def test_a_signed_file_is_in_force(desk: Desk, spelled: Any) -> None:
    desk.write(spelled(document()).encode())
    assert (await desk.signer.sign(desk.request())).signer_key == SIGNER
    report = await desk.signer.health()
    assert report is not None
    assert report.health_state == "healthy"


async def test_its_limits_are_the_files(desk: Desk) -> None:
    desk.write(text(signers={SIGNER: POLICY | {"caps": {"USDC": "12.4"}}}))
    with pytest.raises(SigningRefused, match=r"policy\.caps\.USDC"):
        await desk.signer.sign(desk.request())


async def test_a_missing_file_and_a_missing_signature_sign_nothing(desk: Desk) -> None:
    assert "policy.yaml: cannot be read (No such file" in await desk.refusal()
    desk.write(text())
    desk.signature.unlink()
    assert "policy.yaml.sig: cannot be read (No such file" in await desk.refusal()


async def test_a_file_that_is_changed_after_it_was_read_signs_nothing(desk: Desk) -> None:
    desk.write(text())
    assert (await desk.signer.sign(desk.request())).signer_key == SIGNER
    desk.journal.by_nonce.clear()
    desk.file.write_bytes(text(signers={SIGNER: POLICY | {"caps": {"USDC": "1000000"}}}))
    assert "it was changed, or signed by another" in await desk.refusal()
    desk.write(text())
    assert (await desk.signer.sign(desk.request())).signer_key == SIGNER


async def test_a_strangers_signature_signs_nothing(desk: Desk) -> None:
    desk.write(text(), STRANGERS_KEY)
    assert f"no signature by {public_key_of(KEY)} fits" in await desk.refusal()


@pytest.mark.parametrize("signature", ["", "nonsense", "00" * 64, "ÿ" * 128, "\n".join(["00" * 64] * 17)])
async def test_what_is_no_signature_signs_nothing(desk: Desk, signature: str) -> None:
    desk.write(text())
    desk.signature.write_text(signature)
    assert "nothing is signed" in await desk.refusal()


async def test_a_signer_that_the_file_does_not_name_signs_nothing(desk: Desk) -> None:
    desk.write(text(signers={"signer.local.other": POLICY}))
    assert f"no policy for {SIGNER}" in await desk.refusal()


async def test_an_older_file_than_the_inventory_asks_for_signs_nothing(signing_desk: Any, tmp_path: Path) -> None:
    desk = Desk(signing_desk, tmp_path, least_serial=4)
    desk.write(text(serial=3))
    assert "serial 3 is older than least_serial 4" in await desk.refusal()
    desk.write(text(serial=4))
    assert (await desk.signer.sign(desk.request())).signer_key == SIGNER


async def test_the_next_signature_may_stand_beside_the_one_in_force(desk: Desk) -> None:
    """So a file is replaced by one rename, with no moment at which nothing fits."""
    desk.write(text())
    following = text(serial=4)
    with desk.signature.open("a") as signatures:
        signatures.write(sign_policy(following, KEY) + "\n")
    assert (await desk.signer.sign(desk.request())).signer_key == SIGNER
    desk.file.write_bytes(following)
    assert (await desk.signer.sign(desk.request())).signer_key == SIGNER


async def test_a_signature_may_lie_elsewhere(signing_desk: Any, tmp_path: Path) -> None:
    desk = Desk(signing_desk, tmp_path, signature=str(tmp_path / "elsewhere"))
    desk.write(text())
    desk.signature.rename(tmp_path / "elsewhere")
    assert (await desk.signer.sign(desk.request())).signer_key == SIGNER


async def test_too_long_a_file_is_not_read(desk: Desk) -> None:
    desk.write(text())
    desk.file.write_bytes(b"#" * 1_048_577)
    assert "longer than 1048576 bytes" in await desk.refusal()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"signers: [", "line 1"),
        (b"- 1", "the file"),
        (text(format="other"), "format"),
        (text(serial=0), "serial"),
        (text(more=1), "more"),
        (text(signers={"treasury": POLICY}), "signers.treasury"),
        (text(signers={SIGNER: POLICY | {"destinations": ["0x12"]}}), "destinations"),
        (text(signers={SIGNER: POLICY | {"caps": {"USDC": "1e9"}}}), "USDC '1e9' is not a plain decimal"),
        (text(signers={SIGNER: POLICY | {"max_fee_native": "-1"}}), "max_fee_native"),
        (text(signers={SIGNER: POLICY | {"native_usd": {"ETH": "3,000"}}}), "ETH '3,000' is not a plain decimal"),
        (text() + b"serial: 9\n", "'serial' stands twice"),
        (b'{"format": "qtg.signer-policy.v1", "serial": 1, "serial": 2, "signers": {}}', "'serial' stands twice"),
        (b"[" * 500 + b"]" * 500, "the file"),
    ],
)
def test_a_file_that_no_signer_could_use_is_not_signed(content: bytes, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        sign_policy(content, KEY)


def test_another_purposes_signature_is_none_of_a_policy() -> None:
    with pytest.raises(ConfigurationError, match="no signature"):
        verify_policy(text(), KEY.sign(text()).hex().encode(), public_key_of(KEY))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10_000), bit=st.integers(0, 7), in_signature=st.booleans())
def test_no_flipped_bit_gets_through(position: int, bit: int, in_signature: bool) -> None:
    content, signature = text(), bytes.fromhex(sign_policy(text(), KEY))
    changed = bytearray(signature if in_signature else content)
    changed[position % len(changed)] ^= 1 << bit
    forged = (content, bytes(changed)) if in_signature else (bytes(changed), signature)
    with pytest.raises(ConfigurationError, match="no signature"):
        verify_policy(forged[0], forged[1].hex().encode(), public_key_of(KEY))


def test_two_policies_for_one_signer_are_refused(desk: Desk) -> None:
    inventory = desk.inventory.model_dump(mode="json")
    inventory["signers"][SIGNER]["policy"] = POLICY
    with pytest.raises(ValueError, match="policy and policy_file: name one of them"):
        Inventory.model_validate(inventory)


def test_what_is_parsed_is_what_was_written() -> None:
    parsed = parse_policy(text())
    assert parsed.serial == 3
    assert parsed.signers[SIGNER].model_dump(mode="json", exclude_unset=True) == POLICY
