"""Adopting a transfer that somebody else sent with the account's key, on a real chain."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address

from qtg_dagster.domain.contract import ADOPTED_REF, ExecutionResult, ResultStatus
from qtg_dagster.lanes.evm import erc20

SEND = "eth_sendRawTransaction"
FRIEND = "0x" + "5a" * 20
KEY = "0x" + "42" * 32


def pay(desk: Any, *, nonce: int = 0, key: str = KEY, **fields: Any) -> str:
    """The hash of a mined transaction of the wallet's: 12.5 USDC to the friend, unless told otherwise."""
    usual = {"to": desk.token, "value": 0, "data": erc20.transfer_call(FRIEND, 12_500_000), "gas": 100_000}
    fields = usual | fields
    fields["to"] = to_checksum_address(fields["to"])
    fees = {"maxFeePerGas": 10**11, "maxPriorityFeePerGas": 10**10}
    signed = Account.from_key(key).sign_transaction({"type": 2, "chainId": 31337, "nonce": nonce, **fees, **fields})
    return str(desk.faucet.call(SEND, "0x" + bytes(signed.raw_transaction).hex()))


def adopted(context: Any, result: ExecutionResult, reference: str) -> Any:
    """The context of later looks, with the refs that the engine keeps."""
    return context.model_copy(update={"node_refs": {**result.provider_refs, ADOPTED_REF: reference}})


async def test_a_transfer_from_the_wallet_is_adopted_and_followed_to_its_end(desk: Any) -> None:
    tx_hash = pay(desk)
    context = desk.context()
    result = await desk.transfer.adopt(context, tx_hash.upper().replace("0X", "0x"))
    assert result.status is ResultStatus.ACCEPTED, result
    assert result.provider_refs == {"tx_hash": tx_hash, "nonce": "0"}
    assert result.evidence["mined_at"]
    desk.mine(2)
    done = await desk.observe_until(
        adopted(context, result, tx_hash), lambda seen: seen.status is ResultStatus.COMPLETED
    )
    assert done.provider_refs["tx_hash"] == tx_hash
    assert desk.proxy.calls[SEND] == 0, "nothing is ever sent for what was adopted"
    assert await desk.balance(FRIEND) == 12_500_000


@pytest.mark.parametrize(
    ("fields", "differs"),
    [
        ({"data": erc20.transfer_call(FRIEND, 12_500_001)}, "call data"),
        ({"data": erc20.transfer_call("0x" + "77" * 20, 12_500_000)}, "call data"),
        ({"to": FRIEND, "data": "0x"}, "recipient or contract"),
        ({"to": FRIEND, "data": "0x", "value": 5}, "value"),
    ],
)
async def test_another_transfer_is_refused_by_what_differs(desk: Any, fields: dict[str, Any], differs: str) -> None:
    result = await desk.transfer.adopt(desk.context(), pay(desk, **fields))
    assert result.status is ResultStatus.REJECTED
    assert differs in result.error_message


async def test_another_sender_is_refused(desk: Any) -> None:
    stranger = Account.from_key("0x" + "43" * 32)
    desk.faucet.call("anvil_setBalance", stranger.address, hex(10**18))
    native: dict[str, Any] = {"to": FRIEND, "data": "0x", "value": 25 * 10**16}
    tx_hash = pay(desk, key="0x" + "43" * 32, **native)
    result = await desk.transfer.adopt(desk.context(asset="ETH", amount="0.25"), tx_hash)
    assert result.status is ResultStatus.REJECTED
    assert "sender" in result.error_message


async def test_what_reverted_is_refused(desk: Any) -> None:
    tx_hash = pay(desk, data=erc20.transfer_call(FRIEND, 10**15))
    result = await desk.transfer.adopt(desk.context(amount="1000000000"), tx_hash)
    assert (result.status, result.error_code) == (ResultStatus.REJECTED, "DID_NOT_SUCCEED")


@pytest.mark.parametrize(("reference", "code"), [("0x" + "ab" * 32, "NOT_MINED"), ("withdrawal 7", "NOT_A_HASH")])
async def test_what_is_not_there_is_refused(desk: Any, reference: str, code: str) -> None:
    result = await desk.transfer.adopt(desk.context(), reference)
    assert (result.status, result.error_code) == (ResultStatus.REJECTED, code)


async def test_a_chain_that_cannot_be_read_proves_nothing(desk: Any) -> None:
    desk.proxy.refuse_unseen.add("eth_getTransactionReceipt")
    result = await desk.transfer.adopt(desk.context(), "0x" + "ab" * 32)
    assert result.status is ResultStatus.UNKNOWN


async def test_beside_an_own_attempt_only_its_own_nonce_will_do_and_only_when_final(desk: Any) -> None:
    context, prepared = await desk.prepared()
    assert prepared.nonce_reservation.nonce == 0
    tx_hash = pay(desk, nonce=0)
    early = await desk.transfer.adopt(context, tx_hash)
    assert (early.status, early.error_code) == (ResultStatus.REJECTED, "OWN_ATTEMPT_OPEN")
    assert "not final" in early.error_message
    desk.mine(70)
    assert (await desk.transfer.adopt(context, tx_hash)).status is ResultStatus.ACCEPTED
    other = await desk.transfer.adopt(context, pay(desk, nonce=1))
    assert (other.status, other.error_code) == (ResultStatus.REJECTED, "OWN_ATTEMPT_OPEN")
    assert "could be mined too" in other.error_message


async def test_the_nodes_own_transaction_is_left_to_recovery(desk: Any) -> None:
    context, prepared = await desk.prepared()
    await desk.transfer.submit(context, prepared)
    result = await desk.transfer.adopt(context, prepared.provider_refs["tx_hash"])
    assert result.status is ResultStatus.REJECTED
    assert "recovery follows by itself" in result.error_message
