"""The action's own rules: one request an attempt, only what was prepared, and only while it is fresh."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qtg_dagster.domain.contract import ResultStatus, payload_hash


async def test_a_second_submit_of_an_attempt_sends_nothing(venue: Any, lane: Any, work_order: Any) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    venue.on_submit(no_bytes=True)
    first = await action.submit(work_order(), prepared)
    before = len(venue.requests)
    second = await action.submit(work_order(), prepared)
    assert (first.status, second.status) == (ResultStatus.UNKNOWN, ResultStatus.UNKNOWN)
    assert second.error_code == "ALREADY_SUBMITTED"
    assert len(venue.requests) == before
    assert venue.posts == 1


async def test_another_attempt_is_another_withdrawal(venue: Any, lane: Any, work_order: Any) -> None:
    action = lane.executor("withdrawal_action")
    for key in ("n1:1", "n1:2"):
        context = work_order({"idempotency_key": key})
        await action.submit(context, await action.prepare(context))
    assert len({row["withdrawOrderId"] for row in venue.withdrawals}) == 2


async def test_an_attempt_that_never_left_may_be_submitted_again(
    venue: Any, lane: Any, work_order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    transport = lane.cex.accounts.account("venue_a").transport
    urls = transport._client.urls["api"]
    monkeypatch.setitem(urls, "sapi", "http://127.0.0.1:1/sapi/v1")
    first = await action.submit(work_order(), prepared)
    monkeypatch.undo()
    second = await action.submit(work_order(), prepared)
    assert first.status is ResultStatus.NOT_SENT
    assert second.status is ResultStatus.ACCEPTED
    assert venue.posts == 1


async def test_what_was_prepared_too_long_ago_is_not_sent(venue: Any, lane: Any, work_order: Any, clock: Any) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    clock.advance(61)
    late = await action.submit(work_order(), prepared)
    assert late.status is ResultStatus.NOT_SENT
    assert "too old" in late.error_message
    assert venue.posts == 0


async def test_a_changed_payload_is_not_sent(venue: Any, lane: Any, work_order: Any) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    payload = prepared.payload.replace("ab" * 20, "cd" * 20)
    changed = prepared.model_copy(update={"payload": payload})
    rehashed = changed.model_copy(update={"payload_hash": payload_hash(payload)})
    other_hash = prepared.model_copy(update={"payload_hash": payload_hash("")})
    for tampered in (changed, rehashed, other_hash):
        answer = await action.submit(work_order(), tampered)
        assert answer.status is ResultStatus.NOT_SENT
    assert venue.posts == 0


async def test_preparing_twice_gives_the_same_payload(lane: Any, work_order: Any) -> None:
    action = lane.executor("withdrawal_action")
    first, second = await action.prepare(work_order()), await action.prepare(work_order())
    assert first.payload_hash == second.payload_hash
    assert json.loads(first.payload)["amount"] == "12.5"
    assert first.provider_refs["withdrawal_balance_before"] == {"free": "1000", "locked": "5", "withdrawing": "0"}


async def test_emptiness_after_acceptance_is_no_evidence(venue: Any, lane: Any, work_order: Any, response: Any) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    accepted = await action.submit(work_order(), prepared)
    context = work_order({"prepared": prepared, "node_refs": accepted.provider_refs})
    venue.on_history(raw=response(200, b"[]"))
    unseen = [await action.observe(context) for _ in range(2)]
    venue.behave()
    seen = await action.observe(context)
    assert [look.status for look in unseen] == [ResultStatus.OBSERVING] * 2
    assert seen.status is ResultStatus.COMPLETED
    assert seen.provider_refs == accepted.provider_refs


async def test_long_absence_after_acceptance_calls_for_attention(
    venue: Any, lane: Any, work_order: Any, clock: Any
) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    await action.submit(work_order(), prepared)
    venue.withdrawals.clear()
    clock.advance(3600)
    look = await action.observe(work_order({"prepared": prepared}))
    assert (look.status, look.error_code) == (ResultStatus.OBSERVING, "NOT_ON_RECORD")


@pytest.mark.parametrize(("status", "code"), [(1, "CANCELLED"), (3, "FAILED"), (5, "FAILED")])
async def test_a_withdrawal_undone_by_the_venue_has_failed(
    status: int, code: str, venue: Any, lane: Any, work_order: Any
) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    await action.submit(work_order(), prepared)
    venue.withdrawals[0]["status"] = status
    look = await action.observe(work_order({"prepared": prepared}))
    assert (look.status, look.error_code) == (ResultStatus.FAILED, f"WITHDRAWAL_{code}")


async def test_a_failed_row_with_a_transaction_is_for_a_person(venue: Any, lane: Any, work_order: Any) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    await action.submit(work_order(), prepared)
    venue.withdrawals[0] |= {"status": 5, "txId": "0x" + "ab" * 32}
    look = await action.observe(work_order({"prepared": prepared}))
    assert (look.status, look.error_code) == (ResultStatus.UNKNOWN, "FAILED_WITH_TRANSACTION")


async def test_an_unlisted_status_is_on_record_and_never_failed(venue: Any, lane: Any, work_order: Any) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    await action.submit(work_order(), prepared)
    venue.withdrawals[0]["status"] = 42
    look = await action.observe(work_order({"prepared": prepared}))
    assert look.status is ResultStatus.COMPLETED
    assert look.evidence["status_listed"] is False


async def test_a_failing_look_up_leaves_it_in_progress(venue: Any, lane: Any, work_order: Any, response: Any) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    venue.on_history(raw=response(429, b"{}", Retry_After="55"))
    look = await action.observe(work_order({"prepared": prepared}))
    assert (look.status, look.retry_after_seconds) == (ResultStatus.OBSERVING, 55)


async def test_the_grace_is_the_venues(lane: Any) -> None:
    assert lane.executor("withdrawal_action").submit_grace_seconds == 7
