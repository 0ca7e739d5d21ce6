"""`qtg signer`: a policy is signed away from QTG, and looked at where QTG runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from qtg_dagster import cli
from qtg_dagster.signatures import public_key_of
from tests.executors.signers.conftest import POLICY, SIGNER

KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
PASSPHRASE = "canary-passphrase-4711"


def qtg(*arguments: str | Path, answer: str | None = None) -> Result:
    return CliRunner().invoke(cli.build(), ["signer", *map(str, arguments)], input=answer)


def pem(key: Any, encryption: KeySerializationEncryption | None = None) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()))


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump({"format": "qtg.signer-policy.v1", "serial": 3, "signers": {SIGNER: POLICY}}))
    return file


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key.pem"
    file.write_bytes(pem(KEY))
    return file


def test_a_signed_policy_is_shown_and_verified(policy: Path, key_file: Path) -> None:
    signed = qtg("sign-policy", policy, "--key", key_file)
    assert signed.exit_code == 0, signed.output
    assert f"{SIGNER}: at most 1 ETH, 100 USDC at once to 0x5a5a" in signed.output
    assert f"public_key: {public_key_of(KEY)}" in signed.output
    verified = qtg("verify-policy", policy, "--public-key", public_key_of(KEY))
    assert verified.exit_code == 0
    assert "serial 3" in verified.output
    assert "rightly signed" in verified.output


def test_a_changed_policy_is_told(policy: Path, key_file: Path) -> None:
    qtg("sign-policy", policy, "--key", key_file)
    policy.write_text(policy.read_text().replace("'100'", "'100000'"))
    changed = qtg("verify-policy", policy, "--public-key", public_key_of(KEY))
    assert changed.exit_code == 1
    assert "it was changed, or signed by another" in changed.output
    assert "rightly" not in changed.output


def test_a_policy_that_no_signer_could_use_is_not_signed(policy: Path, key_file: Path) -> None:
    policy.write_text("format: other")
    refused = qtg("sign-policy", policy, "--key", key_file)
    assert refused.exit_code == 1
    assert "serial" in refused.output
    assert not policy.with_name("policy.yaml.sig").exists()


def test_a_key_under_a_passphrase_is_opened_and_never_shown(policy: Path, key_file: Path) -> None:
    key_file.write_bytes(pem(KEY, BestAvailableEncryption(PASSPHRASE.encode())))
    wrong = qtg("sign-policy", policy, "--key", key_file, answer="wrong\n")
    assert wrong.exit_code == 1
    assert "passphrase" in wrong.output
    right = qtg("sign-policy", policy, "--key", key_file, answer=PASSPHRASE + "\n")
    assert right.exit_code == 0
    secrets = (PASSPHRASE, "07" * 32, pem(KEY).decode().splitlines()[1])
    assert not any(secret in shown.output for secret in secrets for shown in (wrong, right))


@pytest.mark.parametrize("content", [b"nonsense", pem(ec.generate_private_key(ec.SECP256K1()))])
def test_another_sort_of_key_is_refused(policy: Path, key_file: Path, content: bytes) -> None:
    key_file.write_bytes(content)
    assert qtg("sign-policy", policy, "--key", key_file).exit_code == 1


def test_a_public_key_is_needed_to_judge_a_file(policy: Path) -> None:
    for arguments in ([], ["--public-key", "12"]):
        asked = qtg("verify-policy", policy, *arguments)
        assert asked.exit_code == 2
        assert "64 hex digits" in asked.output


def test_all_policies_of_the_inventory_are_judged(
    policy: Path, key_file: Path, signing_desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = signing_desk.inventory.model_dump(mode="json")
    named = {"file": str(policy), "public_key": public_key_of(KEY)}
    inventory["signers"][SIGNER] |= {"policy": {}, "policy_file": named}
    inventory["signers"]["signer.local.other"] = inventory["signers"][SIGNER]
    (tmp_path / "inventory.yaml").write_text(yaml.safe_dump(inventory))
    monkeypatch.setenv("MG_INVENTORY_FILE", str(tmp_path / "inventory.yaml"))
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    unsigned = qtg("verify-policy")
    assert unsigned.exit_code == 1
    assert "2 signers with a policy file, 2 of them without one to go by" in unsigned.output
    qtg("sign-policy", policy, "--key", key_file)
    signed = qtg("verify-policy")
    assert signed.exit_code == 1, "one of them is not in the file"
    assert "no policy for signer.local.other" in signed.output
    assert f"{SIGNER}: at most 1 ETH, 100 USDC" in signed.output
