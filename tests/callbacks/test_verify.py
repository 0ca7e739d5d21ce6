"""The verifier that receivers use, held to vectors and to a few lines that share nothing with it."""

from __future__ import annotations

import ast
import base64
import hashlib
import hmac
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.callbacks import verify as module
from qtg_dagster.callbacks.signing import SigningKeys
from qtg_dagster.callbacks.verify import CallbackRejected, key_of, verify, verify_v3
from qtg_dagster.domain.callbacks import ClaimedCallback
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.inventory import Inventory

VECTORS: list[dict[str, Any]] = json.loads(files("qtg_dagster.callbacks").joinpath("vectors.json").read_text())[
    "vectors"
]
VERIFIED = [vector for vector in VECTORS if vector["expect"] == "verified"]


def names(vectors: list[dict[str, Any]]) -> list[str]:
    return [vector["name"] for vector in vectors]


@pytest.mark.parametrize("vector", VECTORS, ids=names(VECTORS))
def test_the_verifier_says_what_the_vector_expects(vector: dict[str, Any]) -> None:
    check = verify if vector["scheme"] == "standard" else verify_v3
    given = (vector["headers"], vector["body"].encode(), vector["secrets"])
    limits = {"tolerance_seconds": vector["tolerance_seconds"], "now": vector["now"]}
    if vector["expect"] == "verified":
        assert check(*given, **limits).event == json.loads(vector["body"])
        return
    with pytest.raises(CallbackRejected) as rejected:
        check(*given, **limits)
    assert type(rejected.value).__name__ == vector["expect"]


@pytest.mark.parametrize("vector", VERIFIED, ids=names(VERIFIED))
def test_a_few_independent_lines_agree(vector: dict[str, Any]) -> None:
    """What a receiver in any language would write, from the description alone."""
    h = {name.lower(): value for name, value in vector["headers"].items()}
    body = vector["body"].encode()
    ours = set()
    for secret in vector["secrets"]:
        key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
        if vector["scheme"] == "standard":
            message = f"{h['webhook-id']}.{h['webhook-timestamp']}.".encode() + body
            ours.add("v1," + base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode())
        else:
            message = "\n".join(
                [h["x-qtg-callback-timestamp"], h["x-qtg-callback-nonce"], hashlib.sha256(body).hexdigest()]
            ).encode()
            ours.add(hmac.new(key, message, hashlib.sha256).hexdigest())
    theirs = h["webhook-signature"].split() if vector["scheme"] == "standard" else [h["x-qtg-callback-signature"]]
    assert ours & set(theirs)


def test_the_vectors_cover_every_rejection() -> None:
    rejections = {each.__name__ for each in CallbackRejected.__subclasses__()}
    assert {vector["expect"] for vector in VECTORS} == {"verified", *rejections}


def test_the_verifier_needs_the_standard_library_alone() -> None:
    imported = {
        name.split(".")[0]
        for each in ast.walk(ast.parse(Path(module.__file__).read_text()))
        if isinstance(each, (ast.Import, ast.ImportFrom))
        for name in ([each.module or ""] if isinstance(each, ast.ImportFrom) else [a.name for a in each.names])
    }
    assert imported <= set(sys.stdlib_module_names)
    ran = subprocess.run([sys.executable, "-I", "-S", module.__file__], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("secret", "said"),
    [("short", "5 bytes"), ("whsec_c2hvcnQ=", "5 bytes"), ("whsec_!!", "not base64"), ("", "0 bytes")],
)
def test_a_secret_that_is_none_is_refused_without_showing_it(secret: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        key_of(secret)
    assert not secret or secret not in str(refused.value).replace("whsec_,", "")


def test_without_a_secret_nothing_is_believed() -> None:
    with pytest.raises(ValueError, match="no secret"):
        verify(VECTORS[0]["headers"], VECTORS[0]["body"].encode(), [], now=VECTORS[0]["now"])


def callback(body: bytes, receiver: str = "hooks.example.com") -> ClaimedCallback:
    return ClaimedCallback(1, 1, "r", "event-1", "t", 1, "https://hooks.example.com/", receiver, body, 1000, "n-1", 0)


def keys(tmp_path: Path, **more: Any) -> SigningKeys:
    for name in ("current", "previous", "own"):
        (tmp_path / name).write_text(f"the {name} secret, which is long enough")
    entry = {"secret": {"file": str(tmp_path / "current")}, **more}
    return SigningKeys(Inventory.model_validate({"callbacks": entry}))


CURRENT, PREVIOUS, OWN = (f"the {name} secret, which is long enough" for name in ("current", "previous", "own"))


@given(body=st.dictionaries(st.text(), st.text()), now=st.integers(0, 4_000_000_000))
def test_what_is_signed_verifies_and_a_changed_byte_does_not(
    tmp_path_factory: pytest.TempPathFactory, body: dict[str, str], now: int
) -> None:
    raw = json.dumps(body).encode()
    headers = dict(keys(tmp_path_factory.mktemp("keys")).headers(callback(raw), now))
    assert verify(headers, raw, [CURRENT], now=now).event_id == "event-1"
    told = verify_v3(headers, raw, [CURRENT], now=now)
    assert (told.timestamp, told.nonce, told.event) == (1000, "n-1", body)
    for check in (verify, verify_v3):
        with pytest.raises(CallbackRejected):
            check(headers, raw + b" ", [CURRENT], now=now)


def test_while_a_secret_is_replaced_receivers_with_either_verify(tmp_path: Path) -> None:
    during = keys(tmp_path, previous_secret={"file": str(tmp_path / "previous")})
    headers = dict(during.headers(callback(b"{}"), 50))
    for secret in (CURRENT, PREVIOUS):
        assert verify(headers, b"{}", [secret], now=50)
    assert verify_v3(headers, b"{}", [PREVIOUS, CURRENT])


def test_a_receiver_with_a_secret_of_its_own_cannot_be_told_anything_by_the_others(tmp_path: Path) -> None:
    signing = keys(tmp_path, receivers={"Own.example.com": {"secret": {"file": str(tmp_path / "own")}}})
    own = dict(signing.headers(callback(b"{}", "own.example.com"), 50))
    other = dict(signing.headers(callback(b"{}"), 50))
    assert verify(own, b"{}", [OWN], now=50)
    assert verify(other, b"{}", [CURRENT], now=50)
    with pytest.raises(CallbackRejected):
        verify(other, b"{}", [OWN], now=50)


def test_a_secret_that_cannot_be_used_is_named_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("tiny")
    with pytest.raises(ConfigurationError, match="callbacks: a callback secret is 4 bytes long") as refused:
        SigningKeys(Inventory.model_validate({"callbacks": {"secret": {"file": str(tmp_path / "short")}}}))
    assert "tiny" not in str(refused.value)
    with pytest.raises(ConfigurationError, match=r"callbacks\.secret: the file .* is missing"):
        SigningKeys(Inventory.model_validate({"callbacks": {"secret": {"file": str(tmp_path / "none")}}}))
