"""A transfer on a real chain, from preflight to completion, and every way its answers can be lost."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from eth_account import Account

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.domain.errors import RiskControlViolated
from qtg_dagster.lanes.evm.rpc import WrongChain

SEND = "eth_sendRawTransaction"
FRIEND = "0x" + "5a" * 20


def foreign(nonce: int) -> str:
    """Raw bytes of a payment that somebody else made with the treasury's key."""
    payment = {"to": "0x" + "77" * 20, "value": 1, "gas": 21000, "maxFeePerGas": 10**11, "maxPriorityFeePerGas": 1}
    signed = Account.from_key("0x" + "42" * 32).sign_transaction(
        {"type": 2, "chainId": 31337, "nonce": nonce, **payment}
    )
    return "0x" + bytes(signed.raw_transaction).hex()


def completed(result: ExecutionResult) -> bool:
    return result.status is ResultStatus.COMPLETED


async def test_a_token_transfer_completes_once_it_is_deep_enough(desk: Any) -> None:
    context, prepared = await desk.prepared()
    result = await desk.transfer.submit(context, prepared)
    assert result.status is ResultStatus.ACCEPTED
    assert result.provider_refs["tx_hash"] == prepared.provider_refs["tx_hash"]
    seen = await desk.observe_until(context, lambda r: "block_hash" in r.provider_refs)
    assert seen.status is ResultStatus.OBSERVING, "one confirmation of two"
    desk.mine(1)
    done = await desk.observe_until(context, completed)
    assert set(done.provider_refs) == {"tx_hash", "nonce", "block_number", "block_hash", "gas_fee"}
    assert await desk.balance(FRIEND) == 12_500_000
    assert done.evidence["status"] == 1


async def test_native_coins_are_transferred_by_value(desk: Any) -> None:
    context, prepared = await desk.prepared(asset="ETH", amount="0.25")
    assert (await desk.transfer.submit(context, prepared)).status is ResultStatus.ACCEPTED
    desk.mine(2)
    await desk.observe_until(context, completed)
    assert int(desk.faucet.call("eth_getBalance", FRIEND, "latest"), 16) == 25 * 10**16


async def test_the_same_attempt_keeps_its_nonce_when_prepared_again(desk: Any) -> None:
    context = desk.context()
    first, second = await desk.transfer.prepare(context), await desk.transfer.prepare(context)
    other = await desk.transfer.prepare(desk.context(attempt_no="2"))
    assert first.nonce_reservation == second.nonce_reservation
    assert other.nonce_reservation.nonce == first.nonce_reservation.nonce + 1


async def test_a_lost_broadcast_reply_is_unknown_then_found(desk: Any) -> None:
    """C3: the node has it, nobody was told."""
    context, prepared = await desk.prepared()
    desk.proxy.lose_reply_to.add(SEND)
    result = await desk.transfer.submit(context, prepared)
    assert result.status is ResultStatus.UNKNOWN
    assert desk.proxy.calls[SEND] == 1, "nothing below submit may send twice"
    desk.proxy.lose_reply_to.clear()
    found = await desk.observe_until(context, lambda r: r.status is ResultStatus.ACCEPTED, recover=True)
    assert found.provider_refs["tx_hash"] == prepared.provider_refs["tx_hash"]
    desk.mine(2)
    await desk.observe_until(context, completed, recover=True)
    assert await desk.balance(FRIEND) == 12_500_000


async def test_a_broadcast_that_never_arrived_is_sent_again_by_recover(desk: Any) -> None:
    context, prepared = await desk.prepared()
    desk.proxy.refuse_unseen.add(SEND)
    assert (await desk.transfer.submit(context, prepared)).status is ResultStatus.UNKNOWN
    assert (await desk.transfer.recover(context)).status is ResultStatus.UNKNOWN
    desk.proxy.refuse_unseen.clear()
    assert (await desk.transfer.recover(context)).status is ResultStatus.ACCEPTED
    desk.mine(2)
    await desk.observe_until(context, completed)
    assert await desk.balance(FRIEND) == 12_500_000


async def test_sending_the_same_bytes_again_moves_nothing_twice(desk: Any) -> None:
    context, prepared = await desk.prepared()
    desk.faucet.call("evm_setAutomine", False)
    assert (await desk.transfer.submit(context, prepared)).status is ResultStatus.ACCEPTED
    again = await desk.transfer.submit(context, prepared)
    assert again.status is ResultStatus.ACCEPTED, "already known is ours"
    desk.faucet.call("evm_mine")
    late = await desk.transfer.submit(context, prepared)
    assert late.status is ResultStatus.UNKNOWN, "nonce too low is looked up, not believed"
    assert (await desk.transfer.recover(context)).status is ResultStatus.ACCEPTED
    desk.faucet.call("evm_mine")
    await desk.observe_until(context, completed)
    assert await desk.balance(FRIEND) == 12_500_000


async def test_a_receipt_that_is_reorganised_away_takes_the_transfer_back(desk: Any) -> None:
    """C7: back to ACCEPTED, the same bytes are sent again, and it completes in another block."""
    context, prepared = await desk.prepared()
    await desk.transfer.submit(context, prepared)
    seen = await desk.observe_until(context, lambda r: "block_hash" in r.provider_refs)
    context = context.model_copy(update={"node_refs": seen.provider_refs})
    desk.faucet.call("anvil_reorg", 1, [])
    gone = await desk.transfer.observe(context)
    assert gone.status is ResultStatus.ACCEPTED
    assert "reorganised away" in gone.evidence["reorganised"]
    assert gone.evidence["rebroadcast"] == "ACCEPTED"
    desk.mine(2)
    done = await desk.observe_until(context, completed)
    assert done.provider_refs["tx_hash"] == seen.provider_refs["tx_hash"]
    assert done.provider_refs["block_hash"] != seen.provider_refs["block_hash"]
    assert await desk.balance(FRIEND) == 12_500_000


async def test_a_reverted_transfer_fails_with_its_reason_once_it_is_deep_enough(desk: Any) -> None:
    """C8"""
    context, prepared = await desk.prepared()
    desk.faucet.call("evm_setAutomine", False)
    data = "0xf9f92be4" + FRIEND[2:].rjust(64, "0")  # blacklist(address), mined just before ours
    tip = {"maxFeePerGas": hex(10**11), "maxPriorityFeePerGas": hex(9 * 10**10)}
    sent = desk.faucet.call("eth_sendTransaction", {"from": desk.faucet.address, "to": desk.token, "data": data, **tip})
    await desk.transfer.submit(context, prepared)
    desk.faucet.call("evm_mine")
    assert desk.faucet.call("eth_getTransactionReceipt", sent)["status"] == "0x1"
    assert (await desk.transfer.observe(context)).status is ResultStatus.OBSERVING, "a reorganisation may still undo it"
    desk.mine(2)
    result = await desk.transfer.observe(context)
    assert result.status is ResultStatus.FAILED
    assert result.error_code == "REVERTED"
    assert "blacklisted" in result.error_message
    assert result.provider_refs["gas_fee"] not in ("", "0"), "what failed still cost gas"
    assert await desk.balance(FRIEND) == 0


async def test_a_revert_fails_a_transfer_only_when_it_is_final(desk: Any) -> None:
    """After FAILED comes a retry, which pays again: a reorganisation must not be able to pay the first one too."""
    context, prepared = await desk.prepared()
    await desk.transfer.submit(context, prepared)
    await desk.observe_until(context, lambda r: "block_hash" in r.provider_refs)
    desk.mine(1)

    def reverted(answer: dict[str, Any]) -> dict[str, Any]:
        answer["result"]["status"] = "0x0"
        return answer

    desk.proxy.rewrite["eth_getTransactionReceipt"] = reverted
    assert (await desk.transfer.observe(context)).status is ResultStatus.OBSERVING, "deep enough, and not final"
    desk.mine(1)
    assert (await desk.transfer.observe(context)).error_code == "REVERTED"


async def test_a_transfer_that_no_block_can_take_says_so(desk: Any) -> None:
    context, prepared = await desk.prepared()
    desk.faucet.call("evm_setAutomine", False)
    await desk.transfer.submit(context, prepared)
    assert (await desk.transfer.observe(context)).error_code is None

    def dearer(answer: dict[str, Any]) -> dict[str, Any]:
        answer["result"]["baseFeePerGas"] = hex(10**15)
        return answer

    desk.proxy.rewrite["eth_getBlockByNumber"] = dearer
    stuck = await desk.transfer.observe(context)
    assert (stuck.status, stuck.error_code) == (ResultStatus.OBSERVING, "BASE_FEE_OVER_OFFER")
    assert desk.treasury in stuck.error_message
    desk.proxy.rewrite.clear()
    desk.faucet.call("evm_mine")
    desk.mine(2)
    await desk.observe_until(context, completed)


async def test_gas_that_got_dearer_since_preflight_is_held_to_the_ceiling(desk: Any) -> None:
    context = desk.context().model_copy(update={"risk_controls": {"max_fee": "0.001"}})
    assert await desk.transfer.preflight(context) is None

    def dearer(answer: dict[str, Any]) -> dict[str, Any]:
        answer["result"]["baseFeePerGas"] = hex(10**11)
        return answer

    desk.proxy.rewrite["eth_getBlockByNumber"] = dearer
    with pytest.raises(RiskControlViolated, match="fee ceiling"):
        await desk.transfer.prepare(context)
    assert desk.ledger.held == {}


async def test_a_nonce_taken_by_another_fails_only_when_that_is_final(desk: Any) -> None:
    """C5"""
    context, prepared = await desk.prepared()
    taken_by = desk.faucet.call(SEND, foreign(prepared.nonce_reservation.nonce))
    for _ in range(200):
        if desk.faucet.call("eth_getTransactionReceipt", taken_by):
            break
        await asyncio.sleep(0.01)
    result = await desk.transfer.submit(context, prepared)
    assert (result.status, result.error_code) == (ResultStatus.UNKNOWN, "BROADCAST_NONCE_TOO_LOW")
    early = await desk.transfer.recover(context)
    assert (early.status, early.error_code) == (ResultStatus.UNKNOWN, "NONCE_TAKEN")
    desk.mine(3)
    final = await desk.transfer.recover(context)
    assert (final.status, final.error_code) == (ResultStatus.FAILED, "NONCE_USED_BY_ANOTHER")
    assert final.evidence["taker"] == taken_by


async def test_an_underpriced_replacement_consumes_nothing(desk: Any) -> None:
    """C6: another transaction of ours pends under the nonce; only what becomes of that one decides."""
    context, prepared = await desk.prepared()
    desk.faucet.call("evm_setAutomine", False)
    taken_by = desk.faucet.call(SEND, foreign(prepared.nonce_reservation.nonce))
    result = await desk.transfer.submit(context, prepared)
    assert (result.status, result.error_code) == (ResultStatus.UNKNOWN, "BROADCAST_REPLACEMENT_UNDERPRICED")
    pending = await desk.transfer.recover(context)
    assert (pending.status, pending.error_code) == (ResultStatus.UNKNOWN, "REBROADCAST_REPLACEMENT_UNDERPRICED")
    desk.mine(4)
    final = await desk.transfer.recover(context)
    assert (final.status, final.evidence["taker"]) == (ResultStatus.FAILED, taken_by)


@pytest.mark.parametrize("status", [429, 500, 502])
async def test_http_errors_on_broadcast_are_unknown_and_sent_once(desk: Any, status: int) -> None:
    context, prepared = await desk.prepared()
    desk.proxy.http_error[SEND] = (status, {})
    assert (await desk.transfer.submit(context, prepared)).status is ResultStatus.UNKNOWN
    assert desk.proxy.calls[SEND] == 1


async def test_a_rate_limit_is_obeyed_and_blames_nobody(desk: Any) -> None:
    """C16"""
    context, _ = await desk.prepared()
    desk.proxy.http_error["eth_getTransactionReceipt"] = (429, {"Retry-After": "17"})
    result = await desk.transfer.observe(context)
    assert (result.status, result.retry_after_seconds) == (ResultStatus.OBSERVING, 17)
    assert (await desk.transfer.recover(context)).status is ResultStatus.UNKNOWN


async def test_an_endpoint_of_another_chain_is_refused_before_signing(desk: Any) -> None:
    """C15"""
    desk.proxy.rewrite["eth_chainId"] = lambda answer: {**answer, "result": "0x1"}
    refused = await desk.transfer.preflight(desk.context())
    assert refused.status is ResultStatus.NOT_SENT
    assert refused.error_code == "CHAIN_ID_MISMATCH"
    with pytest.raises(WrongChain, match="rpc_urls"):
        await desk.transfer.prepare(desk.context())
    assert desk.ledger.held == {}, "no nonce is taken on a wrong chain"
    assert (await desk.transfer.health()).health_state == "down"


async def test_an_endpoint_that_switches_chains_later_is_refused_too(desk: Any) -> None:
    await desk.prepared()
    desk.proxy.rewrite["eth_chainId"] = lambda answer: {**answer, "result": "0x1"}
    with pytest.raises(WrongChain):
        await desk.transfer.prepare(desk.context())


async def test_heights_never_go_backwards(desk: Any) -> None:
    """C14"""
    rpc = desk.chains["eip155:31337"]
    height = await rpc.height()
    desk.proxy.rewrite["eth_blockNumber"] = lambda answer: {**answer, "result": hex(height - 3)}
    assert await rpc.height() == height


async def test_an_expired_action_is_not_sent(desk: Any) -> None:
    context, prepared = await desk.prepared()
    stale = prepared.model_copy(update={"expires_at": datetime.now(UTC) - timedelta(seconds=1)})
    result = await desk.transfer.submit(context, stale)
    assert (result.status, result.error_code) == (ResultStatus.NOT_SENT, "PREPARED_EXPIRED")
    assert desk.proxy.calls[SEND] == 0


async def test_bytes_that_are_not_the_prepared_transfer_are_never_sent(desk: Any) -> None:
    context, prepared = await desk.prepared()
    other_context, other = await desk.prepared(attempt_no="2", amount="1")
    swapped = prepared.model_copy(update={"signed_payload": other.signed_payload})
    for wrong_context, wrong in ((context, swapped), (context, other), (other_context, prepared)):
        result = await desk.transfer.submit(wrong_context, wrong)
        assert (result.status, result.error_code) == (ResultStatus.REJECTED, "SIGNED_PAYLOAD_MISMATCH")
    assert desk.proxy.calls[SEND] == 0


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"amount": "1000.000001"}, "INSUFFICIENT_BALANCE"),
        ({"amount": "0"}, "INVALID_CONFIG"),
        ({"amount": "1.0000001"}, "INVALID_CONFIG"),
        ({"destination": "0x" + "00" * 20}, "INVALID_CONFIG"),
        ({"destination": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD".replace("AeD", "Aed")}, None),
        ({"destination": "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}, "INVALID_CONFIG"),
        ({"asset": "BTC"}, "INVALID_CONFIG"),
        ({"chain": "eip155:1"}, "INVALID_CONFIG"),
        ({"asset": "ETH", "amount": "1"}, "INSUFFICIENT_GAS"),
    ],
)
async def test_preflight_refuses_what_cannot_work(desk: Any, config: dict[str, str], code: str | None) -> None:
    result = await desk.transfer.preflight(desk.context(**config))
    assert (result.error_code if result else None) == code


async def test_preflight_refuses_the_token_contract_as_destination(desk: Any) -> None:
    result = await desk.transfer.preflight(desk.context(destination=desk.token))
    assert result.error_code == "DESTINATION_IS_TOKEN"


async def test_preflight_refuses_an_address_without_code_as_a_token(desk: Any) -> None:
    desk.proxy.rewrite["eth_getCode"] = lambda answer: {**answer, "result": "0x"}
    assert (await desk.transfer.preflight(desk.context())).error_code == "NO_CONTRACT"


async def test_preflight_refuses_decimals_that_differ_from_the_contract(desk: Any) -> None:
    desk.faucet.call("anvil_setCode", desk.token, "0x601260005260206000f3")  # answers 18 to everything
    assert (await desk.transfer.preflight(desk.context())).error_code == "DECIMALS_DIFFER"


async def test_fees_above_the_ceiling_are_waited_out(desk: Any) -> None:
    desk.faucet.call("anvil_setNextBlockBaseFeePerGas", hex(501 * 10**9))
    desk.mine(1)
    result = await desk.transfer.preflight(desk.context())
    assert (result.status, result.error_code) == (ResultStatus.NOT_SENT, "FEES_ABOVE_CEILING")


async def test_a_gas_cost_over_the_templates_ceiling_is_refused(desk: Any) -> None:
    context = desk.context().model_copy(update={"risk_controls": {"max_fee": "0.0000000001"}})
    assert (await desk.transfer.preflight(context)).error_code == "FEE_CEILING"


async def test_a_transfer_the_token_would_refuse_is_caught_before(desk: Any) -> None:
    data = "0xf9f92be4" + FRIEND[2:].rjust(64, "0")
    await asyncio.to_thread(desk.faucet.send, to=desk.token, data=data)
    result = await desk.transfer.preflight(desk.context())
    assert result.error_code == "WOULD_REVERT"
    assert "blacklisted" in result.error_message


async def test_an_unreachable_chain_delays_and_decides_nothing(desk: Any) -> None:
    context, _ = await desk.prepared()
    desk.proxy.http_error |= dict.fromkeys(
        ("eth_chainId", "eth_getTransactionReceipt", "eth_blockNumber"), (503, {"Retry-After": "3"})
    )
    refused = await desk.transfer.preflight(context)
    assert (refused.status, refused.retry_after_seconds) == (ResultStatus.NOT_SENT, 3)
    assert (await desk.transfer.observe(context)).status is ResultStatus.OBSERVING
    assert (await desk.transfer.recover(context)).status is ResultStatus.UNKNOWN


async def test_one_sender_is_one_serialization_key(desk: Any) -> None:
    usdc = desk.transfer.serialization_key({"chain": "eip155:31337", "account": "treasury", "asset": "USDC"})
    eth = desk.transfer.serialization_key({"chain": "eip155:31337", "account": "treasury", "asset": "ETH"})
    assert usdc == eth == f"evm:eip155:31337:{desk.treasury}"
