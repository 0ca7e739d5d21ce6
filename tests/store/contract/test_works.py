"""What every store promises of intents, outcomes and decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qtg_dagster.domain.errors import Conflict, IllegalMove, StaleClaim
from qtg_dagster.domain.states import NodeState
from qtg_dagster.engine.interventions import resume_movement, retry_node, skip_node
from qtg_dagster.engine.requests import approve_movement, cancel_movement, complete_manual_node
from tests.engine.plans import chain, create, diamond, manual, node, plan_of
from tests.store.contract.conftest import ACCEPTED, COMPLETED, DEFERRED, FAILED, UNKNOWN, Bench, intent_of

ONE = plan_of(node("first"))
FORK = plan_of(node("left"), node("right"), key="fork")


async def test_a_work_knows_its_movement_and_its_neighbours(bench: Bench) -> None:
    request_id = await bench.begin(diamond())
    [work] = await bench.ready()
    assert (work.claim.request_id, work.request_state, work.node_state) == (request_id, "APPROVED", "READY")
    assert work.node_states == {"top": "READY", "left": "BLOCKED", "right": "BLOCKED", "bottom": "BLOCKED"}
    assert (work.attempt_no, work.prepared, work.started_at, work.looks) == (0, None, None, 0)
    assert work.plan == diamond()


async def test_an_intent_is_readable_as_it_was_written(bench: Bench) -> None:
    request_id = await bench.begin(ONE)
    [work] = await bench.ready()
    intent = intent_of(work)
    await bench.store.record_intent(work, intent)
    [again] = await bench.store.load_works([work.claim])
    assert (again.node_state, again.request_state, again.attempt_no) == ("SUBMITTING", "EXECUTING", 1)
    assert again.prepared == intent.prepared
    assert again.provider_refs == intent.prepared.provider_refs
    assert again.started_at is not None
    assert again.observed_since is not None
    assert bench.nodes(request_id)["first"]["things"] == {intent.idempotency_key}


async def test_an_intent_is_written_once(bench: Bench) -> None:
    await bench.begin(ONE)
    [work] = await bench.ready()
    await bench.intend(work)
    assert await bench.store.record_intents([(work, intent_of(work))]) == [False]
    with pytest.raises(StaleClaim):
        await bench.store.record_intent(work, intent_of(work))


async def test_what_was_intended_is_not_refused_or_put_off_any_more(bench: Bench) -> None:
    """The claim is its own, and SUBMITTING may become FAILED or READY: but the state that it knows is gone."""
    request_id = await bench.begin(ONE)
    [work] = await bench.ready()
    await bench.intend(work)
    for late in (replace(FAILED, attempt_outcome=None), DEFERRED):
        [found] = await bench.store.record_moves([(work, late)])
        assert isinstance(found, StaleClaim)
        assert bench.states(request_id) == {"first": "SUBMITTING"}


async def test_an_intent_under_a_lost_claim_is_not_written(bench: Bench) -> None:
    request_id = await bench.begin(ONE)
    [work] = await bench.ready()
    bench.ground.cut(bench.one)
    await bench.ready(bench.two)
    assert await bench.store.record_intents([(work, intent_of(work))]) == [False]
    with pytest.raises(StaleClaim):
        await bench.store.record_intent(work, intent_of(work))
    assert bench.states(request_id) == {"first": "READY"}


@pytest.mark.parametrize("what", ["cancel", "sibling"])
async def test_no_intent_is_written_in_a_movement_that_begins_nothing_any_more(bench: Bench, what: str) -> None:
    request_id = await bench.begin(FORK)
    left, right = await bench.ready()
    if what == "cancel":
        await cancel_movement(bench.engine, request_id, actor="heidi", reason="stop")
    else:
        await bench.write(left, FAILED)
    assert await bench.store.record_intents([(right, intent_of(right))]) == [False]
    with pytest.raises(StaleClaim):
        await bench.store.record_intent(right, intent_of(right))


async def test_no_intent_is_written_beside_a_failure_that_waits_for_another_to_settle(bench: Bench) -> None:
    request_id = await bench.begin(plan_of(node("gone"), node("failing"), node("held"), key="three"))
    gone, failing, held = await bench.ready()
    await bench.write(await bench.intend(gone), ACCEPTED)
    await bench.write(failing, FAILED)
    assert bench.ground.request_state(request_id) == "EXECUTING"
    assert await bench.store.record_intents([(held, intent_of(held))]) == [False]
    with pytest.raises(StaleClaim):
        await bench.store.record_intent(held, intent_of(held))
    await bench.store.release([held.claim])
    assert await bench.store.claim_ready(bench.two, 9) == []


async def test_a_late_outcome_changes_nothing_and_is_on_record(bench: Bench) -> None:
    _, _ = await bench.submitted(ONE)
    [late] = await bench.due()
    bench.ground.cut(bench.one)
    [taken] = await bench.due(bench.two)
    before = bench.ground.standing(late.claim.node_id)
    [found] = await bench.store.record_moves([(late, COMPLETED)])
    assert isinstance(found, StaleClaim)
    assert bench.ground.standing(late.claim.node_id) == before
    assert bench.ground.fenced(late.claim)
    assert not bench.ground.fenced(taken.claim)
    await bench.write(taken, COMPLETED)


async def test_a_fenced_outcome_takes_no_other_down(bench: Bench) -> None:
    first, _ = await bench.submitted(ONE)
    second, _ = await bench.submitted(plan_of(node("first"), key="other"))
    one, two = await bench.due()
    stale = replace(one, claim=replace(one.claim, claim_epoch=one.claim.claim_epoch - 1))
    found = await bench.store.record_moves([(stale, COMPLETED), (two, COMPLETED)])
    assert isinstance(found[0], StaleClaim)
    assert {**bench.states(first)} == {"first": "SUBMITTED"}
    assert {**bench.states(second)} == {"first": "COMPLETED"}


async def test_a_move_that_is_none_writes_nothing_at_all(bench: Bench) -> None:
    first, _ = await bench.submitted(ONE)
    second, _ = await bench.submitted(plan_of(node("first"), key="other"))
    one, two = await bench.due()
    with pytest.raises(IllegalMove):
        await bench.store.record_moves([(one, COMPLETED), (two, replace(COMPLETED, to_state=NodeState.BLOCKED))])
    assert bench.states(first) == bench.states(second) == {"first": "SUBMITTED"}


async def test_the_end_of_one_is_the_beginning_of_the_next(bench: Bench) -> None:
    request_id, _ = await bench.submitted(diamond())
    [top] = await bench.due()
    found = await bench.write(top, COMPLETED)
    assert found.ready == ("left", "right")
    begun = [await bench.intend(work) for work in await bench.ready()]
    left, right = sorted(begun, key=lambda work: work.node.node_key)
    await bench.write(left, replace(COMPLETED, provider_refs={"reference": "l"}))
    assert bench.states(request_id)["bottom"] == "BLOCKED"
    assert (await bench.write(right, COMPLETED)).ready == ("bottom",)
    [bottom] = await bench.ready()
    assert bottom.siblings["left"].refs["reference"] == "l"
    found = await bench.write(await bench.intend(bottom), COMPLETED)
    assert found.request_state == bench.ground.request_state(request_id) == "COMPLETED"


async def test_a_failure_points_at_what_proves_it_and_stops_its_movement(bench: Bench) -> None:
    request_id, _ = await bench.submitted(ONE)
    [work] = await bench.due()
    assert (await bench.write(work, FAILED)).request_state == "FAILED"
    row = bench.nodes(request_id)["first"]
    assert (row["evidence_of"], row["evidence_to"]) == (row["id"], "FAILED")
    await retry_node(bench.engine, request_id, "first", actor="heidi", reason="again")
    assert bench.ground.request_state(request_id) == "EXECUTING"
    [again] = await bench.ready()
    assert again.attempt_no == 1
    await bench.intend(again)
    assert bench.nodes(request_id)["first"]["attempt_no"] == 2


async def test_looks_that_see_the_same_are_counted_and_others_begin_anew(bench: Bench) -> None:
    await bench.submitted(ONE)
    look = replace(ACCEPTED, attempt_outcome=None, look_after=0.0)
    for seen in (1, 2):
        [work] = await bench.due()
        await bench.write(work, look)
        [again] = await bench.due()
        assert again.looks == seen
        await bench.store.release([again.claim])
    [work] = await bench.due()
    await bench.write(work, replace(look, error_code="ODD"))
    [again] = await bench.due()
    assert (again.looks, again.error_code) == (0, "ODD")


async def test_an_intervention_stops_what_may_have_moved_until_a_person_resumes_it(bench: Bench) -> None:
    request_id, _ = await bench.submitted(FORK)
    left, right = await bench.due()
    await bench.write(left, COMPLETED)
    found = await bench.write(right, UNKNOWN)
    assert found.request_state == bench.ground.request_state(request_id) == "MANUAL_INTERVENTION"
    with pytest.raises(Conflict):
        await retry_node(bench.engine, request_id, "right", actor="heidi", reason="too early")
    await resume_movement(bench.engine, request_id, actor="heidi", reason="looked at it")
    assert bench.ground.request_state(request_id) == "EXECUTING"


async def test_what_a_decision_refuses_leaves_everything_as_it_was(bench: Bench) -> None:
    request_id, _ = await bench.submitted(chain())
    before = bench.ground.nodes(request_id)
    for refused in (
        cancel_movement(bench.engine, request_id, actor="heidi", reason="stop"),
        approve_movement(bench.engine, request_id, actor="grace"),
        resume_movement(bench.engine, request_id, actor="heidi", reason="why not"),
    ):
        with pytest.raises(Conflict):
            await refused
    assert bench.ground.nodes(request_id) == before


async def test_a_decision_that_fails_half_way_is_not_written(bench: Bench) -> None:
    request_id = await create(bench.engine, ONE)

    async def approve_and_fail() -> None:
        async with bench.store.deciding() as tx:
            request = await tx.lock_request(request_id, "sandbox")
            await tx.set_request_state(request, request.request_state.APPROVED)
            raise LookupError("the rest did not work")

    with pytest.raises(LookupError):
        await approve_and_fail()
    assert bench.ground.request_state(request_id) == "PENDING_APPROVAL"


async def test_manual_steps_are_done_or_skipped_by_people(bench: Bench) -> None:
    steps = plan_of(manual("manual_a"), manual("manual_b"), node("last"), edges=(("manual_a", "last"),), key="steps")
    request_id = await bench.begin(steps)
    await complete_manual_node(bench.engine, request_id, "manual_a", actor="heidi", note="done")
    await skip_node(bench.engine, request_id, "manual_b", actor="heidi", reason="not needed")
    assert bench.states(request_id) == {"manual_a": "COMPLETED", "manual_b": "SKIPPED", "last": "READY"}


async def test_a_person_takes_over_from_whoever_holds_a_node(bench: Bench) -> None:
    request_id = await bench.begin(FORK)
    left, _ = await bench.ready()
    await cancel_movement(bench.engine, request_id, actor="heidi", reason="stop")
    [found] = await bench.store.record_moves([(left, FAILED)])
    assert isinstance(found, StaleClaim)
    assert set(bench.states(request_id).values()) == {"CANCELLED"}
