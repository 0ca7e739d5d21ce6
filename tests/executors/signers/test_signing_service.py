"""A signer in a process of its own, asked by a `remote` signer: two policies, two journals, one key."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from click.testing import CliRunner

from qtg_dagster import cli
from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.domain.contract import SignRequest
from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.domain.nonce_chain import FILL_ACTION, FILL_FORMAT
from qtg_dagster.executors.message_auth import new_nonce, request_headers
from qtg_dagster.executors.remote.hosting import Listening, hosting
from qtg_dagster.executors.request_gate import RequestGate
from qtg_dagster.executors.signers.building import build_signer
from qtg_dagster.executors.signers.encoding import check_signed
from qtg_dagster.executors.signers.guarded import GuardedSigner, SignerUnavailable
from qtg_dagster.executors.signers.reading import read_payload
from qtg_dagster.executors.signers.service import SigningService
from qtg_dagster.secret import Secret
from tests.executors.signers.conftest import POLICY, SIGNER, inventory_with
from tests.executors.signers.services import ADDRESS, SECRET, TEN_MEGABYTES


class Asked:
    """The desk's local signer behind HTTP, and a remote one that asks it, with a journal of its own."""

    def __init__(self, desk: Any, url: str, folder: Path, journal: Any) -> None:
        (folder / "hmac").write_text(SECRET)
        entry = {"kind": "remote", "url": url, "address": ADDRESS, "secret": {"file": str(folder / "hmac")}}
        inventory = inventory_with(desk.inventory, entry | {"policy": POLICY}, ADDRESS)
        self.behind, self.request, self.url = desk, desk.request, url
        self.signer: GuardedSigner = build_signer(SIGNER, inventory.signers[SIGNER], inventory, journal)


@pytest.fixture
async def asked(signing_desk: Any, make_signing_desk: Callable[..., Any], tmp_path: Path) -> AsyncIterator[Asked]:
    gate = RequestGate([Secret(SECRET)], SystemClock())
    async with hosting(SigningService(signing_desk.signer, gate).app(), Listening()) as (url, _):
        asked = Asked(signing_desk, url, tmp_path, type(signing_desk.journal)())
        yield asked
        await asked.signer.close()


async def test_it_signs_what_both_agree_with(asked: Asked) -> None:
    request = asked.request()
    signed = await asked.signer.sign(request)
    assert (
        check_signed(signed.signed_payload, read_payload(request.payload), ADDRESS) == signed.provider_refs["tx_hash"]
    )
    assert len(asked.behind.journal.by_nonce) == 1


async def test_the_services_own_policy_refuses_what_the_askers_allows(asked: Asked) -> None:
    asked.behind.signer._policy._policy = asked.behind.inventory.signers[SIGNER].policy.model_copy(
        update={"caps": {"USDC": "1"}}
    )
    with pytest.raises(SigningRefused, match=r"HTTP 403, SIGNING_REFUSED: policy\.caps\.USDC"):
        await asked.signer.sign(asked.request())
    assert asked.behind.journal.by_nonce == {}


async def test_the_services_own_journal_refuses_what_the_askers_has_lost(asked: Asked) -> None:
    await asked.signer.sign(asked.request())
    asked.signer._journal.by_nonce.clear()  # type: ignore[attr-defined]
    asked.signer._journal.by_role.clear()  # type: ignore[attr-defined]
    with pytest.raises(SigningRefused, match="HTTP 403, SIGNING_REFUSED: evm_transfer#1 has signed another effect"):
        await asked.signer.sign(asked.request(transaction={"nonce": "8"}))


def filler(asked: Asked, **transaction: str) -> SignRequest:
    return asked.request(
        transaction={"to": ADDRESS, "data": "0x", "gas": "21000"} | transaction,
        intent={"action": FILL_ACTION, "asset": "ETH", "amount": "0", "destination": ADDRESS},
        request={"payload_format": FILL_FORMAT},
    )


async def test_what_fills_a_nonce_is_judged_by_both(asked: Asked) -> None:
    with pytest.raises(SigningRefused, match="signed nothing under it"):
        await asked.signer.sign(filler(asked))
    await asked.signer.sign(asked.request())
    signed = await asked.signer.sign(filler(asked))
    assert check_signed(signed.signed_payload, read_payload(filler(asked).payload), ADDRESS)
    assert len(asked.behind.journal.fills) == len(asked.signer._journal.fills) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"value": "1"}, "payload.transaction.value"),
        ({"to": "0x" + "5a" * 20}, "payload.transaction.to"),
        ({"max_fee_per_gas": str(101 * 10**9)}, "max_fee_gwei"),
        ({"gas": "9000000"}, "max_fee_native"),
    ],
)
async def test_a_service_refuses_by_itself_what_does_more_than_fill(
    asked: Asked, changes: dict[str, str], reason: str
) -> None:
    """Whoever has the secret can ask it, with no guard of ours in between."""
    await asked.signer.sign(asked.request())
    answer = await call(asked, filler(asked, **changes).model_dump_json().encode())
    assert answer.status_code == 403
    assert reason in answer.json()["error"]["message"]
    assert asked.behind.journal.fills == {}


async def test_health_goes_through_to_the_key(asked: Asked, tmp_path: Path) -> None:
    report = await asked.signer.health()
    assert report is not None
    assert (report.health_state, report.signer_address) == ("healthy", ADDRESS)
    (tmp_path / "keystore.json").unlink()
    report = await asked.signer.health()
    assert report is not None
    assert report.health_state == "down"
    assert "is not a readable keystore" in report.detail


async def test_a_key_that_cannot_be_had_may_be_asked_for_again(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "keystore.json").rename(tmp_path / "away")
    with pytest.raises(SignerUnavailable, match="HTTP 503, SIGNER_UNAVAILABLE"):
        await asked.signer.sign(asked.request())
    (tmp_path / "away").rename(tmp_path / "keystore.json")
    assert (await asked.signer.sign(asked.request())).signer_address == ADDRESS


async def test_what_a_key_throws_is_not_repeated(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    async def thrown(**_: Any) -> None:
        raise RuntimeError("canary-in-an-exception-4711")

    monkeypatch.setattr(asked.behind.journal, "record", thrown)
    with pytest.raises(SignerUnavailable, match="RuntimeError") as failure:
        await asked.signer.sign(asked.request())
    assert "canary" not in str(failure.value)


async def call(asked: Asked, body: bytes, *, path: str = "/sign", **headers: str) -> httpx.Response:
    signed = request_headers(
        Secret(SECRET),
        method="POST",
        path="/sign",
        timestamp=int(SystemClock().now().timestamp() * 1000),
        nonce=new_nonce(),
        idempotency_key="",
        body=body,
    )
    async with httpx.AsyncClient(trust_env=False) as client:
        merged = httpx.Headers(signed)
        merged.update(headers)
        return await client.post(asked.url + path, content=body, headers=merged)


async def test_only_requests_that_are_signed_get_in_and_each_once(asked: Asked) -> None:
    body = asked.request().model_dump_json().encode()
    nonce = new_nonce()
    strangers = {"QTG-Signature": "v1=" + "0" * 64}
    assert (await call(asked, body, **strangers)).status_code == 401
    assert (await call(asked, body, path="/sign?more=1")).status_code == 401
    assert (await call(asked, body, **{"QTG-Nonce": nonce})).status_code == 401
    assert (await call(asked, b"0" * (TEN_MEGABYTES // 100))).status_code == 413
    assert asked.behind.journal.by_nonce == {}
    first = await call(asked, body)
    assert first.status_code == 200
    again = {name: value for name, value in first.request.headers.items() if name.startswith("qtg-")}
    assert (await call(asked, body, **again)).status_code == 409


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"protocol_version": "1.0"}', b'{"protocol_version": "9"}'])
async def test_what_is_no_sign_request_is_told_so(asked: Asked, body: bytes) -> None:
    answer = await call(asked, body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in ("MALFORMED", "WRONG_VERSION")


def test_a_service_that_is_not_safe_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNER_SECRET", SECRET)
    words = ["signer", "serve", SIGNER, "--secret-env", "SIGNER_SECRET", "--host", "10.0.0.1"]
    refused = CliRunner().invoke(cli.build(), words)
    assert isinstance(refused.exception, ConfigurationError)
    assert "open to other machines" in str(refused.exception)


async def test_the_command_gives_a_key_a_process_of_its_own(
    signing_desk: Any, database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "inventory.yaml").write_text(json.dumps(signing_desk.inventory.model_dump(mode="json")))
    machine = {"DATABASE_URL": database_url, "QTG_HOME": str(tmp_path), "SIGNER_SECRET": SECRET}
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "qtg_dagster",
            "signer",
            "serve",
            SIGNER,
            "--port",
            "0",
            "--secret-env",
            "SIGNER_SECRET",
        ),
        env={**os.environ, **machine, "MG_INVENTORY_FILE": str(tmp_path / "inventory.yaml")},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        said = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        assert said.startswith(f"serving {SIGNER} on http://127.0.0.1:")
        asked = Asked(signing_desk, said.rpartition(" ")[2], tmp_path, signing_desk.journal)
        request = asked.request()
        signed = await asked.signer.sign(request)
        assert signed.signer_address == ADDRESS
        with psycopg.connect(database_url) as connection:
            rows = connection.execute("SELECT chain, sender, nonce, role FROM qtg.signer_journal").fetchall()
        assert rows == [("eip155:31337", ADDRESS, 7, "evm_transfer#1")]
        await asked.signer.close()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
