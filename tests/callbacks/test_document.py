"""What bodies hold is what is published, for every event that a movement has in its life."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from qtg_dagster.callbacks.document import FILE, Callback, schema_text
from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.journal import CallbackEvent
from qtg_dagster.engine.expiry import expire_pending_requests
from qtg_dagster.engine.requests import cancel_movement, reject_movement
from tests.callbacks.post import Post
from tests.engine.plans import manual, node, plan_of, watch

URL = "http://127.0.0.1:9/hook"
TWO = plan_of(node("first"), watch("last"), edges=(("first", "last"),))


def test_the_published_schema_is_current() -> None:
    """When this fails: `python -m qtg_dagster.callbacks.document`."""
    assert FILE.read_text() == schema_text()


async def told(post: Post) -> list[tuple[str, str]]:
    """Event types and what they say, after each was held against the published form."""
    found = [Callback.model_validate_json(row["body"]) for row in await post.rows()]
    assert [each.sequence for each in found] == list(range(1, len(found) + 1))
    for each in found:
        assert each.payload.request_id == each.request_id
        assert each.model_extra == {}
        assert each.payload.model_extra == {}
    return [
        (
            each.event_type.value,
            str(each.payload.request_state or ",".join(each.payload.frontier or each.payload.allowed_actions or ())),
        )
        for each in found
    ]


CHANGED, ADVANCED, ATTENTION = (
    CallbackEvent.REQUEST_STATE_CHANGED.value,
    CallbackEvent.FRONTIER_ADVANCED.value,
    CallbackEvent.REQUEST_ATTENTION.value,
)


async def test_a_movement_that_completes_tells_each_change_once_in_order(post: Post) -> None:
    post.desk.will("observe", "first", ResultStatus.COMPLETED)
    post.desk.will("observe", "last", ResultStatus.COMPLETED)
    await post.desk.begin(TWO, callback_url=URL)
    for _ in range(2):
        await post.desk.dispatch()
        await post.desk.make_due()
        await post.desk.observe()
    assert await post.desk.request_state() == "COMPLETED"
    assert await told(post) == [
        (CHANGED, "APPROVED"), (CHANGED, "EXECUTING"), (ADVANCED, "last"), (CHANGED, "COMPLETED"),
    ]  # fmt: skip


async def test_a_movement_that_needs_a_person_says_what_may_be_done(post: Post) -> None:
    post.desk.will("observe", "first", ResultStatus.COMPLETED)
    post.desk.will("observe", "last", ResultStatus.FAILED)
    await post.desk.begin(TWO, callback_url=URL)
    for _ in range(2):
        await post.desk.dispatch()
        await post.desk.make_due()
        await post.desk.observe()
    assert await post.desk.request_state() == "MANUAL_INTERVENTION"
    assert (await told(post))[-2:] == [(CHANGED, "MANUAL_INTERVENTION"), (ATTENTION, "cancel,retry last")]


@pytest.mark.parametrize(("act", "state"), [(reject_movement, "REJECTED"), (cancel_movement, "CANCELLED")])
async def test_a_movement_that_is_called_off_says_so(post: Post, act: object, state: str) -> None:
    request_id = await post.desk.create(TWO, callback_url=URL)
    await act(post.desk.engine, request_id, actor="grace", reason="no")  # type: ignore[operator]
    assert await told(post) == [(CHANGED, state)]


async def test_a_movement_that_was_not_approved_in_time_says_so(post: Post) -> None:
    await post.desk.create(TWO, callback_url=URL)
    await post.desk.sql("UPDATE qtg.movement_requests SET expires_at = now() - interval '1 s'")
    assert await expire_pending_requests(post.desk.engine) == 1
    assert await told(post) == [(CHANGED, "EXPIRED")]


async def test_a_movement_that_waits_for_a_person_says_so(post: Post) -> None:
    await post.desk.begin(plan_of(manual("manual_check"), key="manual"), callback_url=URL)
    assert await told(post) == [(CHANGED, "APPROVED"), (CHANGED, "WAITING_MANUAL_ACTION")]


def test_what_is_no_callback_is_seen() -> None:
    body = {"event_id": "x", "event_type": "gone", "sequence": 0}
    with pytest.raises(ValidationError):
        Callback.model_validate_json(json.dumps(body))
