"""The local signer signs exactly what was agreed, and names its reason for everything else."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from eth_account import Account
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.contract import Signer
from qtg_dagster.executors.signers.reading import read_payload
from qtg_dagster.lanes.evm.transaction import SignedTransaction, UnsignedTransaction

FRIEND, STRANGER = "0x" + "5a" * 20, "0x" + "66" * 20
USDC, DAI = "0x" + "c0" * 20, "0x" + "da" * 20
KEY, PASSPHRASE = "0x" + "4c" * 32, "correct horse battery staple"


def transfer_data(recipient: str, units: int) -> str:
    return "0xa9059cbb" + recipient[2:].rjust(64, "0") + format(units, "064x")


async def test_it_signs_what_was_agreed(signing_desk: Any) -> None:
    request = signing_desk.request()
    signed = await signing_desk.signer.sign(request)
    decoded = SignedTransaction.decode(signed.signed_payload)
    assert decoded.unsigned == UnsignedTransaction.from_payload(request.payload)
    assert decoded.sender == signed.signer_address == str(Account.from_key(KEY).address).lower()
    assert signed.provider_refs == {"tx_hash": decoded.hash}
    assert signed.payload_hash == request.payload_hash
    assert isinstance(signing_desk.signer, Signer)


async def test_it_signs_native_transfers(signing_desk: Any) -> None:
    request = signing_desk.request(
        transaction={"to": FRIEND, "value": str(5 * 10**17), "data": "0x"}, intent={"asset": "ETH", "amount": "0.5"}
    )
    signed = await signing_desk.signer.sign(request)
    assert SignedTransaction.decode(signed.signed_payload).unsigned.value == 5 * 10**17


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "destination swapped in the payload": (
        {"transaction": {"data": transfer_data(STRANGER, 12_500_000)}},
        "destination: the payload pays",
    ),
    "destination swapped in the intent": ({"intent": {"destination": STRANGER}}, "destination: the payload pays"),
    "both swapped to one that policy does not know": (
        {"transaction": {"data": transfer_data(STRANGER, 12_500_000)}, "intent": {"destination": STRANGER}},
        "policy.destinations",
    ),
    "amount raised": ({"transaction": {"data": transfer_data(FRIEND, 12_500_001)}}, "amount: the payload pays"),
    "amount lowered": ({"intent": {"amount": "12.500001"}}, "amount: the payload pays"),
    "amount not plain": ({"intent": {"amount": "1.25e1"}}, "signing_intent.amount"),
    "another token": ({"transaction": {"to": DAI}}, "asset: the payload moves"),
    "a token that is not in the inventory": ({"transaction": {"to": "0x" + "99" * 20}}, "asset: the payload moves"),
    "native coins instead of the token": (
        {"transaction": {"to": FRIEND, "value": "12500000", "data": "0x"}},
        "asset: the payload moves the native coin",
    ),
    "an asset the chain does not have": ({"intent": {"asset": "DOGE"}}, "asset: DOGE is not on"),
    "no cap for the asset": (
        {
            "transaction": {"to": DAI, "data": transfer_data(FRIEND, 10**18)},
            "intent": {"asset": "DAI", "amount": "1"},
        },
        "policy.caps: no cap",
    ),
    "over the cap": (
        {"transaction": {"data": transfer_data(FRIEND, 100_000_001)}, "intent": {"amount": "100.000001"}},
        "policy.caps.USDC",
    ),
    "zero": (
        {"transaction": {"data": transfer_data(FRIEND, 0)}, "intent": {"amount": "0"}},
        "policy.caps.USDC",
    ),
    "another chain of the inventory": ({"transaction": {"chain_id": "10"}}, "the movement names"),
    "another chain, unnamed by the movement": (
        {"transaction": {"chain_id": "10"}, "request": {"metadata": {}}},
        "is no account of this signer",
    ),
    "a chain that is not in the inventory": ({"transaction": {"chain_id": "1"}}, "not in the inventory"),
    "another chain family": ({"intent": {"chain_family": "solana"}}, "chain_family"),
    "approve": (
        {"transaction": {"data": "0x095ea7b3" + transfer_data(FRIEND, 12_500_000)[10:]}},
        "0x095ea7b3 is no call",
    ),
    "transfer with trailing bytes": (
        {"transaction": {"data": transfer_data(FRIEND, 12_500_000) + "00"}},
        "is no call",
    ),
    "dirty upper bytes of the address": (
        {"transaction": {"data": transfer_data(FRIEND, 12_500_000).replace("cbb0", "cbb1", 1)}},
        "is no call",
    ),
    "a token transfer that also pays": ({"transaction": {"value": "1"}}, "also sends native coins"),
    "gas over the chain's ceiling": ({"transaction": {"max_fee_per_gas": str(101 * 10**9)}}, "max_fee_gwei"),
    "a tip over the whole fee": ({"transaction": {"max_priority_fee_per_gas": "2000000001"}}, "max_priority_fee"),
    "gas cost over the policy": ({"transaction": {"gas": "6000000"}}, "policy.max_fee_native"),
    "a payload of another node": ({"payload": {"request_node_id": "other"}}, "another node"),
    "a payload with more in it": ({"payload": {"extra": "1"}}, "other fields"),
    "an access list": ({"transaction": {"access_list": "[]"}}, "other fields"),
    "a number that is not text": ({"transaction": {"nonce": 7}}, "whole number as text"),
    "a negative number": ({"transaction": {"value": "-1"}}, "whole number as text"),
    "attempt zero": ({"payload": {"attempt_no": 0}}, "attempt_no"),
    "another format": ({"request": {"payload_format": "evm.legacy.v1"}}, "payload_format"),
    "a hash that is not the payload's": ({"request": {"payload_hash": "0" * 64}}, "not the hash"),
    "another payload than was allowed": ({"intent": {"allowed_payload_hash": "0" * 64}}, "another payload was allowed"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_it_refuses(signing_desk: Any, case: str) -> None:
    changes, reason = REFUSALS[case]
    with pytest.raises(SigningRefused, match=reason):
        await signing_desk.signer.sign(signing_desk.request(**changes))
    assert signing_desk.journal.by_nonce == {}, "what is refused is not remembered as signed"


async def test_a_payload_swapped_after_prepare_is_refused(signing_desk: Any) -> None:
    honest = signing_desk.request()
    swapped = honest.payload.replace(FRIEND[2:], STRANGER[2:])
    with pytest.raises(SigningRefused, match="not the hash of the payload"):
        await signing_desk.signer.sign(honest.model_copy(update={"payload": swapped}))


async def test_json_in_another_spelling_is_refused(signing_desk: Any) -> None:
    honest = signing_desk.request()
    with pytest.raises(SigningRefused, match="canonical"):
        read_payload(json.dumps(json.loads(honest.payload), indent=1))


async def test_an_empty_policy_signs_nothing(make_signing_desk: Callable[..., Any]) -> None:
    desk = make_signing_desk(policy={})
    with pytest.raises(SigningRefused, match=r"policy\.destinations"):
        await desk.signer.sign(desk.request())


async def test_a_second_effect_under_one_nonce_is_refused(signing_desk: Any) -> None:
    await signing_desk.signer.sign(signing_desk.request())
    other = signing_desk.request(
        transaction={"data": transfer_data(FRIEND, 1_000_000)},
        intent={"amount": "1"},
        payload={"attempt_no": 2},
    )
    with pytest.raises(SigningRefused, match="nonce 7"):
        await signing_desk.signer.sign(other)


async def test_one_attempt_never_gets_two_nonces(signing_desk: Any) -> None:
    """Two nonces for one attempt would be two payments."""
    await signing_desk.signer.sign(signing_desk.request())
    with pytest.raises(SigningRefused, match="evm_transfer#1"):
        await signing_desk.signer.sign(signing_desk.request(transaction={"nonce": "8"}))


async def test_the_same_effect_may_be_priced_again(signing_desk: Any) -> None:
    first = await signing_desk.signer.sign(signing_desk.request())
    second = await signing_desk.signer.sign(signing_desk.request(transaction={"max_fee_per_gas": "3000000000"}))
    assert first.provider_refs != second.provider_refs


async def test_signing_again_gives_the_same_bytes(signing_desk: Any) -> None:
    request = signing_desk.request()
    assert await signing_desk.signer.sign(request) == await signing_desk.signer.sign(request)


async def test_nothing_is_signed_when_the_journal_is_out_of_reach(signing_desk: Any) -> None:
    async def unreachable(**_: Any) -> None:
        raise ConnectionError("no database")

    signing_desk.journal.record = unreachable
    with pytest.raises(ConnectionError):
        await signing_desk.signer.sign(signing_desk.request())


async def test_a_key_that_is_not_the_accounts_is_refused(make_signing_desk: Callable[..., Any]) -> None:
    desk = make_signing_desk(account=STRANGER)
    with pytest.raises(SigningRefused, match="is no account of this signer"):
        await desk.signer.sign(desk.request())
    report = await desk.signer.health()
    assert report.health_state == "down"
    assert "treasury" in report.detail


async def test_the_key_never_shows(signing_desk: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    signed = await signing_desk.signer.sign(signing_desk.request())
    shown = [repr(signing_desk.signer), str(signing_desk.signer), repr(signed), caplog.text]
    signing_desk.folder.joinpath("passphrase").write_text("wrong " + PASSPHRASE)
    signing_desk.signer._account = None
    with pytest.raises(SigningRefused, match="does not open the keystore") as failure:
        await signing_desk.signer.sign(signing_desk.request())
    shown.append("".join(traceback.format_exception(failure.value)))
    for text in shown:
        assert KEY[2:] not in text
        assert str(int(KEY, 16)) not in text
        assert PASSPHRASE not in text


async def test_a_missing_keystore_is_named(signing_desk: Any) -> None:
    signing_desk.folder.joinpath("keystore.json").unlink()
    with pytest.raises(ConfigurationError, match=r"signers\.signer\.local\.treasury\.keystore"):
        await signing_desk.signer.sign(signing_desk.request())
    assert (await signing_desk.signer.health()).health_state == "down"


async def test_health_opens_no_key(signing_desk: Any) -> None:
    report = await signing_desk.signer.health()
    assert report.health_state == "healthy"
    assert report.signer_address == str(Account.from_key(KEY).address).lower()
    assert signing_desk.signer._account is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["nonce", "to", "value", "data", "gas", "max_fee_per_gas", "chain_id"]),
    text=st.text(max_size=80),
)
async def test_strange_payload_fields_are_refused_or_mean_the_same(signing_desk: Any, name: str, text: str) -> None:
    request = signing_desk.request(transaction={name: text})
    try:
        read = read_payload(request.payload)
    except SigningRefused:
        return
    document = json.loads(request.payload)
    assert canonical_json(document) == request.payload
    assert {"to": read.to, "data": read.data}.get(name, text) == text
