"""`qtg audit` on a real database: what an operator and an auditor do with the trail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from qtg_dagster import cli
from qtg_dagster.signatures import public_key_of
from qtg_dagster.store.roles import APP, SENDER
from tests.conftest import as_role
from tests.tampering import tamper

KEY = Ed25519PrivateKey.generate()
INVENTORY = "assets: {USDC: {symbol: USDC, decimals: 6}}\n"


@pytest.fixture(autouse=True)
def _machine(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory, key = tmp_path / "inventory.yaml", tmp_path / "audit.pem"
    (tmp_path / "checkpoints").mkdir()
    inventory.write_text(INVENTORY)
    key.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    monkeypatch.setenv("DATABASE_URL", as_role(database_url, APP))
    monkeypatch.setenv("MG_SENDER_DATABASE_URL", as_role(database_url, SENDER))
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("MG_INVENTORY_FILE", str(inventory))
    monkeypatch.setenv("MG_AUDIT_CHECKPOINT_FOLDER", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("MG_AUDIT_CHECKPOINT_KEY", f"file:{key}")


def qtg(*words: object) -> Result:
    return CliRunner().invoke(cli.build(), [str(word) for word in words])


def words_of(result: Result) -> str:
    """What is said on the terminal, by a command or by the programme around it."""
    return f"{result.output} {result.exception}"


def deeds(*actors: str) -> None:
    for actor in actors:
        done = qtg("limit", "set", "USDC", "1000", "--by", actor, "--reason", f"grün, by {actor}")
        assert done.exit_code == 0, done.output


def test_deeds_are_promoted_verified_and_listed() -> None:
    deeds("ada", "grace")
    waiting = qtg("audit", "verify")
    assert waiting.exit_code == 0
    assert waiting.output.startswith("2 entries wait for promotion, the oldest for ")
    assert qtg("audit", "promote").output == "2 entries promoted\n"
    right = qtg("audit", "verify")
    assert right.exit_code == 0
    assert right.output.startswith("the audit trail of sandbox is right: 2 rows, head ")
    listed = qtg("audit", "list").output.splitlines()
    assert [line.split()[0] for line in listed] == ["1", "2"]
    assert "set_velocity_limit velocity_limit USDC" in listed[0]
    for words, places in (
        (("--actor", "grace"), ["2"]),
        (("--subject", "USDC", "--most", "1"), ["2"]),
        (("--action", "approve"), []),
        (("--since", "2020-01-01"), ["1", "2"]),
        (("--since", "2920-01-01"), []),
        (("--subject", "USDC", "--actor", "ada", "--action", "set_velocity_limit"), ["1"]),
    ):
        found = qtg("audit", "list", *words).stdout.splitlines()
        assert [line.split()[0] for line in found] == places, words


def test_a_tampered_row_is_named_and_the_exit_code_says_so(database_url: str) -> None:
    deeds("ada", "grace", "lin")
    qtg("audit", "promote")
    tamper(database_url, "UPDATE qtg.audit_events SET actor = 'mallory' WHERE sequence = 2")
    wrong = qtg("audit", "verify")
    assert wrong.exit_code == 1
    first, second = wrong.output.splitlines()
    assert first.startswith("WRONG  sandbox sequence 2: changed: ")
    assert "set_velocity_limit by mallory on velocity_limit USDC" in first
    assert (
        second == "WRONG  sandbox sequence 2: event and outbox entry differ: entry 2 of the outbox tells something else"
    )


def test_a_checkpoint_finds_what_the_chain_alone_cannot(database_url: str, tmp_path: Path) -> None:
    assert qtg("audit", "checkpoint").output == "nothing to sign: the chain has no row yet\n"
    deeds("ada", "grace")
    qtg("audit", "promote")
    signed = qtg("audit", "checkpoint").output.splitlines()
    folder = tmp_path / "checkpoints"
    assert signed == [f"signed: {folder / 'sandbox-000000000002.json'}", f"public_key: {public_key_of(KEY)}"]
    against = ("--checkpoint", folder, "--public-key", public_key_of(KEY))
    assert qtg("audit", "verify", *against).exit_code == 0
    tamper(
        database_url,
        "UPDATE qtg.audit_events SET actor = 'mallory' WHERE sequence = 1",
        "UPDATE qtg.audit_outbox SET actor = 'mallory' WHERE id = 1",
        "DELETE FROM qtg.audit_verifications",
        rehash_from=1,
    )
    assert qtg("audit", "verify").exit_code == 0, "who owns the database can hash anew"
    wrong = qtg("audit", "verify", *against)
    assert wrong.exit_code == 1
    assert "sandbox sequence 2: not as signed: the checkpoint of " in wrong.output
    assert "of rows 1 to 2, some were replaced" in wrong.output
    refused = qtg("audit", "checkpoint")
    assert refused.exit_code != 0
    assert "nothing was signed, the audit trail is not right" in words_of(refused)


def auditor(file: Path) -> subprocess.CompletedProcess[str]:
    """Runs the lines of docs/audit.md, and nothing of ours."""
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    [lines] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    command = [sys.executable, "-I", "-c", lines, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_an_export_is_verified_with_the_lines_of_the_page_alone(tmp_path: Path, database_url: str) -> None:
    deeds("ada", "grace", "lin")
    qtg("audit", "promote")
    file = tmp_path / "trail.jsonl"
    assert qtg("audit", "export", "--out", file).exit_code == 0
    with psycopg.connect(database_url) as connection:
        head = connection.execute("SELECT row_hash FROM qtg.audit_events ORDER BY sequence DESC LIMIT 1").fetchone()
    assert head is not None
    assert auditor(file).stdout == f"3 {head[0]}\n"
    tail = qtg("audit", "export", "--after", 2).output
    assert json.loads(tail)["sequence"] == 3
    assert json.loads(json.loads(tail)["details"])["reason"] == "grün, by lin"
    rows = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([rows[0], rows[1].replace("grace", "mallory"), rows[2]]))
    assert "row 2 was changed" in auditor(file).stderr
    file.write_text("\n".join([rows[0], rows[2]]))
    assert "a row before 3 is gone" in auditor(file).stderr


def test_the_signature_of_a_checkpoint_is_what_the_page_says(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    deeds("ada")
    qtg("audit", "promote")
    qtg("audit", "checkpoint")
    document = json.loads((tmp_path / "checkpoints" / "sandbox-000000000001.json").read_text())
    signature, key = bytes.fromhex(document.pop("signature")), bytes.fromhex(document.pop("public_key"))
    content = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    Ed25519PublicKey.from_public_bytes(key).verify(signature, b"qtg.audit-checkpoint.v1\n" + content)
    assert set(document) == {"format", "network_class", "sequence", "row_hash", "at"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--checkpoint", "."), "goes with --checkpoint"),
        (("--public-key", "0" * 64), "goes with --checkpoint"),
        (("--checkpoint", ".", "--public-key", "abc"), "is no key"),
    ],
)
def test_what_cannot_be_verified_is_said(words: tuple[str, ...], said: str) -> None:
    refused = qtg("audit", "verify", *words)
    assert refused.exit_code != 0
    assert said in words_of(refused)


def test_without_a_key_there_is_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MG_AUDIT_CHECKPOINT_KEY")
    monkeypatch.delenv("MG_AUDIT_CHECKPOINT_FOLDER")
    assert "MG_AUDIT_CHECKPOINT_FOLDER" in words_of(qtg("audit", "checkpoint"))


def test_a_key_written_where_its_place_belongs_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MG_AUDIT_CHECKPOINT_KEY", "canary-4711")
    refused = words_of(qtg("audit", "verify"))
    assert "MG_AUDIT_CHECKPOINT_KEY" in refused
    assert "file:PATH or env:NAME" in refused
    assert "canary" not in refused
