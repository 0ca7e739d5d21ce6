"""What holds for signers of every kind: nothing that differs from its approval ever reaches a key."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from eth_account import Account
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.executors.contract import Signer
from qtg_dagster.executors.signers.encoding import check_signed
from qtg_dagster.executors.signers.reading import read_payload
from tests.executors.signers.conftest import AWS_CANARY, POLICY, Holder
from tests.executors.signers.services import KEY, SECRET

FRIEND, USDC = "0x" + "5a" * 20, "0x" + "c0" * 20
PASSPHRASE = "correct horse battery staple"
SECRETS = (KEY[2:], str(int(KEY, 16)), PASSPHRASE, AWS_CANARY, SECRET)


def transfer_data(recipient: str, units: int) -> str:
    return "0xa9059cbb" + recipient[2:].rjust(64, "0") + format(units, "064x")


async def test_no_more_is_signed_for_in_a_day_than_the_policy_says(holder: Holder) -> None:
    await holder.replace_policy({**POLICY, "daily": {"USDC": "20"}})
    first, second = (
        holder.request(
            transaction={"nonce": nonce}, payload={"request_node_id": node}, request={"request_node_id": node}
        )
        for nonce, node in (("7", str(uuid4())), ("8", str(uuid4())))
    )
    await holder.signer.sign(first)
    await holder.signer.sign(first)  # the same again is not counted again
    assert "policy.daily.USDC: no more than 20 USDC" in await holder.refuses(second)


@pytest.mark.parametrize("stated", ["2020-01-01T00:00:00+00:00", "2020-01-01T00:00:00", "soon"])
async def test_an_approval_that_has_expired_or_cannot_be_read_is_refused(holder: Holder, stated: str) -> None:
    request = holder.request(request={"metadata": {"chain": "eip155:31337", "approval_expires_at": stated}})
    assert "approval_expires_at" in await holder.refuses(request)


async def test_one_that_still_counts_is_signed(holder: Holder) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    request = holder.request(request={"metadata": {"chain": "eip155:31337", "approval_expires_at": until}})
    assert (await holder.signer.sign(request)).payload_hash == request.payload_hash


async def test_it_signs_what_was_agreed(holder: Holder) -> None:
    request = holder.request()
    signed = await holder.signer.sign(request)
    read = read_payload(request.payload)
    assert check_signed(signed.signed_payload, read, signed.signer_address) == signed.provider_refs["tx_hash"]
    assert str(Account.recover_transaction(signed.signed_payload)).lower() == signed.signer_address
    assert holder.used() == 1
    assert isinstance(holder.signer, Signer)


addresses = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex()).filter(lambda text: text != FRIEND)
quick = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(stranger=addresses, where=st.sampled_from(["payload", "intent", "both"]))
async def test_a_swapped_destination_never_reaches_the_key(holder: Holder, stranger: str, where: str) -> None:
    transaction = {"data": transfer_data(stranger, 12_500_000)} if where != "intent" else {}
    intent = {"destination": stranger} if where != "payload" else {}
    assert "destination" in await holder.refuses(holder.request(transaction=transaction, intent=intent))


@quick
@given(units=st.integers(0, 2**256 - 1).filter(lambda units: units != 12_500_000), as_approved=st.booleans())
async def test_a_swapped_amount_never_reaches_the_key(holder: Holder, units: int, as_approved: bool) -> None:
    """Other than the intent says; or as the intent says, and over the cap."""
    assume(not as_approved or units > 100_000_000)
    intent = {"amount": f"{units // 10**6}.{units % 10**6:06d}"} if as_approved else {}
    await holder.refuses(holder.request(transaction={"data": transfer_data(FRIEND, units)}, intent=intent))


@quick
@given(token=addresses.filter(lambda text: text != USDC), native=st.booleans())
async def test_a_swapped_asset_never_reaches_the_key(holder: Holder, token: str, native: bool) -> None:
    swapped = {"to": FRIEND, "value": "12500000", "data": "0x"} if native else {"to": token}
    assert "asset: the payload moves" in await holder.refuses(holder.request(transaction=swapped))


@quick
@given(chain=st.one_of(st.just(10), st.integers(0, 2**64)).filter(lambda chain: chain != 31337), named=st.booleans())
async def test_a_swapped_chain_never_reaches_the_key(holder: Holder, chain: int, named: bool) -> None:
    metadata = {"chain": f"eip155:{chain}"} if named else {}
    request = holder.request(transaction={"chain_id": str(chain)}, request={"metadata": metadata})
    assert "eip155" in await holder.refuses(request)


@quick
@given(nonce=st.integers(0, 2**64).filter(lambda nonce: nonce != 7), rehashed=st.booleans())
async def test_a_nonce_that_is_swapped_after_approval_never_reaches_the_key(
    holder: Holder, nonce: int, rehashed: bool
) -> None:
    approved, swapped = holder.request(), holder.request(transaction={"nonce": str(nonce)})
    changes = {"payload": swapped.payload} | ({"payload_hash": swapped.payload_hash} if rehashed else {})
    assert "payload" in await holder.refuses(approved.model_copy(update=changes))


@quick
@given(
    fees=st.one_of(
        st.tuples(st.just("max_fee_per_gas"), st.integers(100 * 10**9 + 1, 10**78 - 1)),
        st.tuples(st.just("max_priority_fee_per_gas"), st.integers(2 * 10**9 + 1, 2**256 - 1)),
        st.tuples(st.just("gas"), st.integers(5_000_001, 10**78 - 1)),
    )
)
async def test_a_fee_over_the_ceiling_never_reaches_the_key(holder: Holder, fees: tuple[str, int]) -> None:
    reason = await holder.refuses(holder.request(transaction={fees[0]: str(fees[1])}))
    assert "fee" in reason or "does not fit 256 bits" in reason


@pytest.mark.parametrize(
    ("price", "most", "reason"),
    [
        (None, "1000", "no price of ETH"),
        ("3000", "0.41", "are over 0.41 USD"),
        ("3000", "0.4199", "are over 0.4199 USD"),
        ("3000", "1e3", "max_fee_usd"),
        ("1e3", "1000", "native_usd.ETH"),
    ],
)
async def test_a_fee_over_the_intents_own_ceiling_never_reaches_the_key(
    holder: Holder, price: str | None, most: str, reason: str
) -> None:
    """70,000 gas at 2 gwei: 0.00014 ETH, 0.42 USD at this price. Without a price nobody can tell."""
    await holder.replace_policy(POLICY | ({"native_usd": {"ETH": price}} if price else {}))
    assert reason in await holder.refuses(holder.request(intent={"max_fee_usd": most}))


async def test_a_fee_within_the_intents_own_ceiling_is_signed(holder: Holder) -> None:
    await holder.replace_policy(POLICY | {"native_usd": {"ETH": "3000"}})
    await holder.signer.sign(holder.request(intent={"max_fee_usd": "0.42"}))
    assert holder.used() == 1


async def test_without_a_policy_nothing_reaches_the_key(holder: Holder) -> None:
    await holder.replace_policy({})
    assert "policy.destinations" in await holder.refuses(holder.request())


async def test_a_second_effect_under_one_nonce_never_reaches_the_key(holder: Holder) -> None:
    await holder.signer.sign(holder.request())
    other = holder.request(
        transaction={"data": transfer_data(FRIEND, 10**6)}, intent={"amount": "1"}, payload={"attempt_no": 2}
    )
    assert "nonce 7" in await holder.refuses(other)


async def test_a_second_nonce_for_one_attempt_never_reaches_the_key(holder: Holder) -> None:
    await holder.signer.sign(holder.request())
    used = holder.used()
    with pytest.raises(SigningRefused, match="evm_transfer#1"):
        await holder.signer.sign(holder.request(transaction={"nonce": "8"}))
    assert holder.used() == used


async def test_the_journal_holds_the_effect_before_the_key_is_used(
    holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    used_at: list[int] = []
    record = holder.journal.record

    async def noted(**entry: Any) -> None:
        used_at.append(holder.used())
        await record(**entry)

    monkeypatch.setattr(holder.journal, "record", noted)
    await holder.signer.sign(holder.request())
    assert (used_at, holder.used()) == ([0], 1)

    async def unreachable(**_: Any) -> None:
        raise ConnectionError("no database")

    monkeypatch.setattr(holder.journal, "record", unreachable)
    with pytest.raises(ConnectionError):
        await holder.signer.sign(holder.request())
    assert holder.used() == 1


async def test_health_names_the_address_and_uses_no_key(holder: Holder) -> None:
    report = await holder.signer.health()
    assert (report.health_state, report.detail) == ("healthy", "")
    assert report.signer_address == holder.desk.inventory.accounts["treasury"].address
    assert holder.used() == 0


async def test_no_secret_shows(holder: Holder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    shown = [repr(await holder.signer.sign(holder.request())), repr(await holder.signer.health())]
    for changes in ({"intent": {"amount": "1"}}, {"transaction": {"nonce": "8"}}):
        with pytest.raises(SigningRefused) as refusal:
            await holder.signer.sign(holder.request(**changes))
        shown.append("".join(traceback.format_exception(refusal.value)))
    shown += [repr(holder.signer), repr(holder.desk.inventory), caplog.text]
    assert [secret for secret in SECRETS for text in shown if secret in text] == []
