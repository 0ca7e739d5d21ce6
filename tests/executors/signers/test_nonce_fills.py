"""What fills a nonce: signed by every kind of signer beside what it signed before, as exactly that and nothing else."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from eth_account import Account
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qtg_dagster.domain.contract import SignRequest
from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.domain.nonce_chain import FILL_ACTION, FILL_FORMAT
from qtg_dagster.executors.signers.encoding import check_signed
from qtg_dagster.executors.signers.reading import read_payload
from tests.executors.signers.conftest import POLICY, Holder

FRIEND = "0x" + "5a" * 20
quick = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def filler(holder: Holder, **changes: dict[str, Any]) -> SignRequest:
    """Uses up nonce 7; every part can be overridden, as `SigningDesk.request` has it."""
    me = holder.desk.inventory.accounts["treasury"].address
    transaction = {"to": me, "data": "0x", "gas": "21000"} | changes.get("transaction", {})
    intent = {"action": FILL_ACTION, "asset": "ETH", "amount": "0", "destination": me} | changes.get("intent", {})
    request = {"payload_format": FILL_FORMAT, "metadata": {"chain": "eip155:31337"}} | changes.get("request", {})
    return holder.request(transaction=transaction, intent=intent, request=request, payload=changes.get("payload"))  # type: ignore[no-any-return]


async def refuses(holder: Holder, request: SignRequest) -> str:
    """Also beside a journaled original; the journal knows of no filler afterwards."""
    await holder.signer.sign(holder.request())
    reason = await holder.refuses(request)
    assert holder.journal.fills == {}
    return reason


async def test_it_is_signed_beside_the_original_and_moves_nothing(holder: Holder) -> None:
    await holder.signer.sign(holder.request())
    request = filler(holder)
    signed = await holder.signer.sign(request)
    read = read_payload(request.payload)
    assert check_signed(signed.signed_payload, read, signed.signer_address) == signed.provider_refs["tx_hash"]
    assert str(Account.recover_transaction(signed.signed_payload)).lower() == read.to
    assert (read.value, read.data, read.nonce) == (0, "0x", 7)
    assert holder.used() == 2
    assert len(holder.journal.fills) == 1


async def test_the_same_at_a_higher_fee_is_signed_too(holder: Holder) -> None:
    await holder.signer.sign(holder.request())
    await holder.signer.sign(filler(holder))
    await holder.signer.sign(filler(holder, transaction={"max_fee_per_gas": "3000000000"}, payload={"attempt_no": 2}))
    assert len(holder.journal.fills) == 1


async def test_a_nonce_under_which_nothing_was_signed_is_not_filled(holder: Holder) -> None:
    assert "signed nothing under it" in await holder.refuses(filler(holder))


async def test_once_it_is_filled_even_the_original_is_not_signed_again(holder: Holder) -> None:
    await holder.signer.sign(holder.request())
    await holder.signer.sign(filler(holder))
    used = holder.used()
    with pytest.raises(SigningRefused, match="another effect"):
        await holder.signer.sign(holder.request())
    assert holder.used() == used


@quick
@given(
    changes=st.one_of(
        st.integers(1, 2**256 - 1).map(lambda value: {"value": str(value)}),
        st.binary(min_size=20, max_size=20).map(lambda raw: {"to": "0x" + raw.hex()}),
        st.just({"to": FRIEND}),
        st.just({"data": "0xa9059cbb" + FRIEND[2:].rjust(64, "0") + "1".rjust(64, "0")}),
        st.binary(min_size=1, max_size=80).map(lambda raw: {"data": "0x" + raw.hex()}),
        st.integers(0, 2**64).filter(lambda chain: chain != 31337).map(lambda chain: {"chain_id": str(chain)}),
        st.integers(100 * 10**9 + 1, 2**256 - 1).map(lambda fee: {"max_fee_per_gas": str(fee)}),
        st.integers(5_000_001, 2**256 - 1).map(lambda gas: {"gas": str(gas)}),
        st.integers(2 * 10**9 + 1, 2**256 - 1).map(lambda tip: {"max_priority_fee_per_gas": str(tip)}),
    )
)
async def test_with_value_data_another_recipient_or_chain_or_over_the_fees_it_never_reaches_the_key(
    holder: Holder, changes: dict[str, str]
) -> None:
    await refuses(holder, filler(holder, transaction=changes))


@pytest.mark.parametrize(
    "intent",
    [{"action": "evm_transfer"}, {"amount": "1"}, {"amount": "0.0"}, {"asset": "USDC"}, {"destination": FRIEND}],
)
async def test_an_intent_that_says_anything_else_never_reaches_the_key(holder: Holder, intent: dict[str, str]) -> None:
    await refuses(holder, filler(holder, intent=intent))


async def test_a_transfer_does_not_pass_as_one_and_it_does_not_pass_as_a_transfer(holder: Holder) -> None:
    await refuses(holder, holder.request(request={"payload_format": FILL_FORMAT}))
    assert "allowlist" in await refuses(holder, filler(holder, request={"payload_format": "evm.eip1559.v1"}))


async def test_it_is_for_the_node_that_asks(holder: Holder) -> None:
    assert "another node" in await refuses(holder, filler(holder, request={"request_node_id": str(uuid4())}))


@pytest.mark.parametrize("policy", [{**POLICY, "nonce_fills": False}, {}, {"caps": POLICY["caps"]}])
async def test_a_policy_can_forbid_it_and_a_signer_without_one_does_not_do_it(
    holder: Holder, policy: dict[str, Any]
) -> None:
    await holder.signer.sign(holder.request())
    await holder.replace_policy(policy)
    assert "nonce_fills" in await holder.refuses(filler(holder))
