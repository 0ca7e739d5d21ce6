"""Following a withdrawal to its transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from qtg_dagster.domain.contract import ResultStatus

HASH = "0x" + "ab" * 32


@pytest.fixture
def following(lane: Any, work_order: Any) -> Any:
    """The executor and its work order for withdrawal w1."""
    config = {"amount": None, "destination": None, "withdrawal_id": "w1", "client_id": "c1"}
    return lane.executor("withdrawal_observe"), work_order({"action_type": "cex_withdrawal_status"}, **config)


@pytest.fixture
def row(venue: Any, clock: Any) -> dict[str, Any]:
    """The venue's row of withdrawal w1."""
    fields = {"id": "w1", "withdrawOrderId": "c1", "coin": "USDC", "network": "ETH", "amount": "11.5", "status": 4}
    fields |= {"transactionFee": "1.00", "applyTime": clock.now().strftime("%Y-%m-%d %H:%M:%S")}
    venue.withdrawals.append(fields)
    return fields


async def test_done_with_a_transaction_completes(following: Any, row: dict[str, Any]) -> None:
    executor, context = following
    row |= {"status": 6, "txId": "AB" * 32}
    seen = await executor.observe(context)
    assert seen.status is ResultStatus.COMPLETED
    assert seen.provider_refs == {"tx_hash": HASH, "withdrawal_fee": "1", "withdrawal_amount": "11.5"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"status": 0}, None),
        ({"status": 2}, None),
        ({"status": 4, "txId": HASH}, None),
        ({"status": 6}, "NO_TRANSACTION"),
        ({"status": 6, "txId": "w1"}, "NO_TRANSACTION"),
        ({"status": 99, "txId": HASH}, "UNLISTED_STATUS"),
    ],
)
async def test_these_are_in_progress(
    change: dict[str, Any], code: str | None, following: Any, row: dict[str, Any]
) -> None:
    executor, context = following
    row |= change
    seen = await executor.observe(context)
    assert (seen.status, seen.error_code) == (ResultStatus.OBSERVING, code)


async def test_no_row_yet_is_in_progress(following: Any, venue: Any) -> None:
    executor, context = following
    assert (await executor.observe(context)).status is ResultStatus.OBSERVING


@pytest.mark.parametrize("status", [1, 3, 5])
async def test_funds_given_back_have_failed(status: int, following: Any, row: dict[str, Any]) -> None:
    executor, context = following
    row["status"] = status
    assert (await executor.observe(context)).status is ResultStatus.FAILED


@pytest.mark.parametrize("change", [{"coin": "USDT"}, {"network": "TRX"}, {"withdrawOrderId": "c2"}])
async def test_a_row_of_another_withdrawal_is_for_a_person(
    change: dict[str, Any], following: Any, row: dict[str, Any]
) -> None:
    executor, context = following
    row |= {"status": 6, "txId": HASH, **change}
    seen = await executor.observe(context)
    assert (seen.status, seen.error_code) == (ResultStatus.UNKNOWN, "OTHER_ON_RECORD")


async def test_failed_with_a_transaction_is_for_a_person(following: Any, row: dict[str, Any]) -> None:
    executor, context = following
    row |= {"status": 5, "txId": HASH}
    assert (await executor.observe(context)).error_code == "FAILED_WITH_TRANSACTION"


async def test_an_internal_transfer_completes_without_a_made_up_hash(following: Any, row: dict[str, Any]) -> None:
    executor, context = following
    row |= {"status": 6, "txId": "Off-chain transfer 123"}
    seen = await executor.observe(context)
    assert seen.status is ResultStatus.COMPLETED
    assert seen.provider_refs["internal_transfer"] == "Off-chain transfer 123"
    assert "tx_hash" not in seen.provider_refs


async def test_looking_sends_nothing_but_reads(following: Any, venue: Any, row: dict[str, Any]) -> None:
    executor, context = following
    assert await executor.preflight(context) is None
    prepared = await executor.prepare(context)
    submitted = await executor.submit(context, prepared)
    assert submitted.status is ResultStatus.ACCEPTED
    assert venue.requests == []
    await executor.observe(context)
    await executor.recover(context)
    assert {method for method, _, _ in venue.requests} == {"GET"}


async def test_recovery_goes_back_to_observing(following: Any, row: dict[str, Any], venue: Any, response: Any) -> None:
    executor, context = following
    assert (await executor.recover(context)).status is ResultStatus.ACCEPTED
    venue.on_history(raw=response(500, b""))
    assert (await executor.recover(context)).status is ResultStatus.UNKNOWN
    assert (await executor.observe(context)).status is ResultStatus.OBSERVING


async def test_a_missing_field_is_refused_before_anything(lane: Any, work_order: Any) -> None:
    context = work_order(amount=None, destination=None)
    answer = await lane.executor("withdrawal_observe").preflight(context)
    assert answer.status is ResultStatus.REJECTED
    assert answer.evidence["field"] == "config.withdrawal_id"


async def test_many_observers_share_a_request(lane: Any, venue: Any, work_order: Any, clock: Any) -> None:
    applied = clock.now().strftime("%Y-%m-%d %H:%M:%S")
    for number in range(100):
        fields = {"id": f"w{number}", "withdrawOrderId": f"c{number}", "coin": "USDC", "network": "ETH"}
        amounts = {"amount": str(number), "transactionFee": "1", "applyTime": applied}
        venue.withdrawals.append({**fields, **amounts, "status": 6, "txId": f"0x{number:064x}"})
    executor = lane.executor("withdrawal_observe")
    contexts = [
        work_order(amount=None, destination=None, withdrawal_id=f"w{number}", client_id=f"c{number}")
        for number in range(100)
    ]
    seen = await asyncio.gather(*(executor.observe(context) for context in contexts))
    assert [answer.provider_refs["withdrawal_amount"] for answer in seen] == [str(n) for n in range(100)]
    assert len(venue.requests) == 3


async def test_a_failed_shared_request_fails_no_withdrawal(
    lane: Any, venue: Any, work_order: Any, response: Any
) -> None:
    venue.on_history(raw=response(500, b""))
    executor = lane.executor("withdrawal_observe")
    contexts = [work_order(amount=None, destination=None, withdrawal_id=f"w{n}") for n in range(3)]
    seen = await asyncio.gather(*(executor.observe(context) for context in contexts))
    assert {answer.status for answer in seen} == {ResultStatus.OBSERVING}


async def test_a_cancelled_observer_leaves_the_others_their_answer(
    lane: Any, venue: Any, work_order: Any, row: dict[str, Any]
) -> None:
    executor = lane.executor("withdrawal_observe")
    context = work_order(amount=None, destination=None, withdrawal_id="w1")
    first, second = (asyncio.create_task(executor.observe(context)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).status is ResultStatus.OBSERVING
    assert first.cancelled()
