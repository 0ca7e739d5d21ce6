"""Receipts that do not tell what became of the money, as some nodes give them: nothing is concluded from them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.lanes.evm.endpoint import RpcUnavailable
from qtg_dagster.lanes.evm.receipts import STATUS_ODD, Outcome, Receipt
from qtg_dagster.sandbox import contracts
from tests.lanes.evm.conftest import CHAIN, FRIEND, Desk

RECEIPT = "eth_getTransactionReceipt"
SEND = "eth_sendRawTransaction"
ROOT = "0x" + "ab" * 32


class _Dropped:
    """Stands for a member that is not there; named, so that a test's name is the same in every process."""

    def __repr__(self) -> str:
        return "DROPPED"


DROPPED = _Dropped()
#: Everything that is not the protocol's own spelling of 0 and 1.
ODD = [
    "0x2",
    "0x",
    "",
    "0x00",
    "0x01",
    "0X1",
    " 0x1",
    "1",
    "0",
    "success",
    "false",
    0,
    1,
    True,
    False,
    None,
    [],
    {},
    0.0,
]
TRANSACTION = "0x" + "11" * 32
WHOLE: dict[str, Any] = {
    "transactionHash": TRANSACTION,
    "blockNumber": "0x7",
    "blockHash": "0x" + "22" * 32,
    "status": "0x1",
    "gasUsed": "0x5208",
    "effectiveGasPrice": "0x3",
    "logs": [{"address": FRIEND, "topics": ["0x" + "33" * 32], "data": "0x"}],
}
_LOOKED = {ResultStatus.OBSERVING, ResultStatus.ACCEPTED, ResultStatus.UNKNOWN, ResultStatus.COMPLETED}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def shown(**fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A node that shows every receipt with these fields; `DROPPED` leaves one out."""

    def rewrite(answer: dict[str, Any]) -> dict[str, Any]:
        if answer.get("result"):
            changed = {**answer["result"], **fields}
            answer["result"] = {name: value for name, value in changed.items() if value is not DROPPED}
        return answer

    return rewrite


async def mined(desk: Desk) -> tuple[ExecutionContext, str]:
    """A transfer that was sent and the hash of a credit to the treasury, both in a block that is not final yet."""
    mint = contracts.call("mint(address,uint256)", ("address", desk.treasury), ("uint256", 7_250_000))
    credit = await asyncio.to_thread(desk.faucet.send, to=desk.token, data=mint)
    context, prepared = await desk.prepared()
    assert (await desk.transfer.submit(context, prepared)).status is ResultStatus.ACCEPTED
    seen = await desk.observe_until(context, lambda result: "block_hash" in result.provider_refs)
    return context.model_copy(update={"node_refs": seen.provider_refs}), str(credit["transactionHash"])


async def looks(desk: Desk, context: ExecutionContext, credit: str) -> list[ExecutionResult]:
    """What every executor says of its transaction, by both of its looks."""
    config = {"chain": CHAIN, "asset": "USDC", "account": "treasury", "tx_hash": credit}
    watching = desk.context().model_copy(update={"node_config": config, "node_kind": "observe"})
    asked = [(desk.transfer, context), (desk.receive, watching), (desk.finality, watching)]
    return [await look(given) for executor, given in asked for look in (executor.observe, executor.recover)]


async def test_a_status_that_nobody_knows_is_pending_and_then_unknown_with_the_value(desk: Desk) -> None:
    context, credit = await mined(desk)
    for odd in ODD:
        desk.proxy.rewrite[RECEIPT] = shown(status=odd)
        for result in await looks(desk, context, credit):
            assert result.status in (ResultStatus.OBSERVING, ResultStatus.ACCEPTED), repr(odd)
            assert result.evidence["odd_status"] == json.dumps(odd)
    desk.mine(5)
    for odd in ODD:
        desk.proxy.rewrite[RECEIPT] = shown(status=odd)
        for result in await looks(desk, context, credit):
            assert (result.status, result.error_code) == (ResultStatus.UNKNOWN, STATUS_ODD), repr(odd)
            assert result.evidence["odd_status"] == json.dumps(odd)
            assert "balances" in str(result.error_message)


async def test_a_receipt_of_before_byzantium_is_unknown_with_its_root(desk: Desk) -> None:
    context, credit = await mined(desk)
    desk.mine(5)
    desk.proxy.rewrite[RECEIPT] = shown(status=DROPPED, root=ROOT)
    for result in await looks(desk, context, credit):
        assert (result.status, result.error_code) == (ResultStatus.UNKNOWN, STATUS_ODD)
        assert result.evidence["odd_status"] == "missing"
        assert ROOT in result.evidence["root"]


async def test_once_the_node_tells_the_transfer_goes_on_to_its_end(desk: Desk) -> None:
    context, _ = await mined(desk)
    desk.mine(5)
    desk.proxy.rewrite[RECEIPT] = shown(status=None)
    assert (await desk.transfer.recover(context)).status is ResultStatus.UNKNOWN
    desk.proxy.rewrite.clear()
    done = await desk.transfer.recover(context)
    assert (done.status, done.evidence["status"]) == (ResultStatus.COMPLETED, 1)
    assert desk.proxy.calls[SEND] == 1
    assert await desk.balance(FRIEND) == 12_500_000


async def test_what_may_have_moved_money_is_not_called_failed_to_whoever_adopts_it(desk: Desk) -> None:
    context, _ = await mined(desk)
    desk.mine(5)
    desk.proxy.rewrite[RECEIPT] = shown(status="0x2")
    result = await desk.transfer.adopt(desk.context(), context.node_refs["tx_hash"])
    assert (result.status, result.error_code) == (ResultStatus.UNKNOWN, STATUS_ODD)
    assert result.evidence["odd_status"] == '"0x2"'


@pytest.mark.parametrize(
    "fields",
    [
        {"transactionHash": DROPPED},
        {"transactionHash": "0x" + "ee" * 32},
        {"blockHash": None},
        {"blockHash": DROPPED},
        {"blockNumber": "latest"},
        {"blockNumber": 7},
        {"gasUsed": DROPPED},
        {"logs": None},
        {"logs": DROPPED},
        {"logs": [{"address": FRIEND}]},
        {"logs": ["0x"]},
    ],
    ids=str,
)
async def test_what_is_not_made_like_a_receipt_is_a_look_that_failed(desk: Desk, fields: dict[str, Any]) -> None:
    context, credit = await mined(desk)
    desk.mine(5)
    desk.proxy.rewrite[RECEIPT] = shown(**fields)
    for result in await looks(desk, context, credit):
        assert result.status in (ResultStatus.OBSERVING, ResultStatus.ACCEPTED, ResultStatus.UNKNOWN)
        assert result.error_code == "RPC_LOOK_FAILED"
        assert result.evidence["look"]


async def test_a_transfer_log_without_an_amount_is_not_taken_for_nothing_received(desk: Desk) -> None:
    context, _ = await mined(desk)
    desk.mine(5)

    def emptied(answer: dict[str, Any]) -> dict[str, Any]:
        for log in answer["result"]["logs"]:
            log["data"] = "0x"
        return answer

    desk.proxy.rewrite[RECEIPT] = emptied
    result = await desk.transfer.observe(context)
    assert (result.status, result.error_code) == (ResultStatus.OBSERVING, "RPC_LOOK_FAILED")


@pytest.mark.parametrize(
    "method",
    ["eth_blockNumber", "eth_getBlockByNumber", "eth_getTransactionByHash", "eth_getTransactionCount", RECEIPT],
)
async def test_no_answer_of_a_node_makes_a_look_raise_or_say_failed(desk: Desk, method: str) -> None:
    context, credit = await mined(desk)
    desk.mine(5)
    for answer in (None, "0x", "latest", "", [], {}, 7, True):
        desk.proxy.rewrite[method] = lambda reply, answer=answer: {**reply, "result": answer}  # type: ignore[misc]
        results = await looks(desk, context, credit)
        # And what is only asked when there is no receipt.
        desk.proxy.rewrite[RECEIPT] = lambda reply: {**reply, "result": None}
        results += [await desk.transfer.observe(context), await desk.transfer.recover(context)]
        desk.proxy.rewrite.clear()
        ended = {result.status for result in results} - _LOOKED
        assert ended == set(), repr(answer)


@given(_JSON)
def test_only_the_protocols_own_0_and_1_tell_an_outcome(status: Any) -> None:
    outcome = Receipt.of({**WHOLE, "status": status}, source="node").outcome
    told = {"0x0": Outcome.REVERTED, "0x1": Outcome.SUCCEEDED}.get(status) if isinstance(status, str) else None
    assert outcome is (told or Outcome.NOT_TOLD)


@given(st.sampled_from(sorted(WHOLE)), _JSON)
def test_no_receipt_raises_anything_but_that_it_cannot_be_read(field: str, value: Any) -> None:
    try:
        receipt = Receipt.of({**WHOLE, field: value}, source="node")
    except RpcUnavailable:
        return
    assert json.loads(json.dumps({**receipt.refs(), **receipt.told()}))["block_number"] == str(receipt.block_number)
