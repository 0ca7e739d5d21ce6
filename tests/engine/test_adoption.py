"""Attaching what exists already to a node: never twice, never beside what may still happen, and never by a submit."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.contract import ADOPTED_REF, ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.domain.errors import Conflict, InvalidInput
from qtg_dagster.engine.adoption import adopt
from qtg_dagster.executors.registry import ExecutorRegistry
from tests.engine.desk import Desk
from tests.engine.plans import manual, node, plan_of
from tests.engine.provider import ScriptedExecutor, ScriptedProvider, answer

S = ResultStatus
KEY = "exec.local.adopting"
PAIR = plan_of(node("first", executor=KEY), node("last", executor=KEY), edges=(("first", "last"),))
THEIRS = plan_of(node("theirs", executor=KEY), key="theirs")
APART = plan_of(node("first", executor=KEY), node("last", executor=KEY), key="apart")


class AdoptingExecutor(ScriptedExecutor):
    """Says yes to everything that its script does not refuse; the reference is what tells one thing from another."""

    identifying_refs = ("reference",)

    def __init__(self, provider: ScriptedProvider) -> None:
        super().__init__(provider)
        self.provider = provider
        self.contexts: list[ExecutionContext] = []

    async def adopt(self, context: ExecutionContext, reference: str) -> ExecutionResult:
        self.contexts.append(context)
        said = await self.provider.scripted("adopt", context.node_key, None)
        return said or answer(S.ACCEPTED, provider_refs={"reference": reference})


@pytest.fixture
def adopting(provider: ScriptedProvider) -> AdoptingExecutor:
    return AdoptingExecutor(provider)


@pytest.fixture
async def desk(desk: Desk, executors: ExecutorRegistry, adopting: AdoptingExecutor) -> Desk:
    executors.register(KEY, adopting)
    return desk


async def take(desk: Desk, node_key: str = "first", reference: str = "0xbeef", *, request_id: str = "") -> None:
    who = request_id or desk.request_id
    await adopt(desk.engine, who, node_key, reference, actor="heidi", reason="sent from the wallet")


async def test_a_ready_node_adopts_and_is_observed_without_a_submit(desk: Desk, adopting: AdoptingExecutor) -> None:
    await desk.begin(PAIR)
    await take(desk)
    assert await desk.states() == {"first": "SUBMITTED", "last": "BLOCKED"}
    assert await desk.request_state() == "EXECUTING"
    row = await desk.node()
    assert row["provider_refs"] == {"reference": "0xbeef", ADOPTED_REF: "0xbeef"}
    assert [(s["from_state"], s["to_state"], s["actor"]) for s in (await desk.steps())[-2:]] == [
        ("READY", "SUBMITTING", "heidi"),
        ("SUBMITTING", "SUBMITTED", "heidi"),
    ]
    [attempt] = await desk.rows("SELECT attempt_no, outcome FROM qtg.movement_node_attempts")
    assert attempt == {"attempt_no": 1, "outcome": "ACCEPTED"}
    [deed] = await desk.rows("SELECT actor, details FROM qtg.audit_outbox WHERE action = 'adopt'")
    assert (deed["actor"], deed["details"]["reference"]) == ("heidi", "0xbeef")
    await desk.observe()
    assert await desk.states() == {"first": "COMPLETED", "last": "READY"}
    assert desk.provider.count("submit", "first") == 0


async def test_an_uncertain_attempt_is_told_what_it_became(desk: Desk, adopting: AdoptingExecutor) -> None:
    await desk.begin(PAIR)
    desk.will("submit", "first", TimeoutError("reply lost"))
    await desk.dispatch()
    await take(desk)
    assert adopting.contexts[-1].prepared is not None, "the executor must see what could happen beside it"
    row = await desk.node()
    assert (row["node_state"], row["attempt_no"]) == ("SUBMITTED", 1)
    await desk.observe()
    assert (await desk.states())["first"] == "COMPLETED"
    assert desk.provider.count("submit", "first") == 1


async def test_what_became_certain_while_it_was_looked_at_is_not_adopted(desk: Desk) -> None:
    await desk.begin(PAIR)
    desk.will("submit", "first", TimeoutError("reply lost"))
    await desk.dispatch()
    await desk.make_due()

    async def recovered() -> None:
        assert await desk.recover() == 1

    desk.provider.during("adopt", "first", recovered)
    with pytest.raises(Conflict, match="first is SUBMITTED"):
        await take(desk)
    assert ADOPTED_REF not in (await desk.node())["provider_refs"]


async def test_an_adoption_fences_the_look_that_was_under_way(desk: Desk) -> None:
    await desk.begin(PAIR)
    desk.will("submit", "first", TimeoutError("reply lost"))
    await desk.dispatch()
    await desk.make_due()

    async def adopted() -> None:
        await take(desk)

    desk.provider.during("recover", "first", adopted)
    desk.will("recover", "first", S.FAILED)
    await desk.recover()
    assert (await desk.states())["first"] == "SUBMITTED"
    assert (await desk.steps())[-1]["step_kind"] == "fenced"


async def test_a_node_that_is_being_dispatched_adopts_nothing(desk: Desk) -> None:
    await desk.begin(PAIR)
    refused: list[str] = []

    async def meanwhile() -> None:
        with pytest.raises(Conflict, match="being dispatched"):
            await take(desk)
        refused.append("yes")

    desk.provider.during("prepare", "first", meanwhile)
    await desk.dispatch()
    assert refused == ["yes"]
    assert desk.provider.count("submit", "first") == 1


async def test_one_thing_belongs_to_one_node(desk: Desk) -> None:
    await desk.begin(APART)
    outcomes = await asyncio.gather(take(desk, "first"), take(desk, "last"), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "NoneType"]
    assert sorted((await desk.states()).values()) == ["READY", "SUBMITTED"]


async def test_what_another_node_did_itself_is_not_adopted(desk: Desk) -> None:
    await desk.begin(APART)
    await desk.dispatch()
    [done] = [key for key, state in (await desk.states()).items() if state == "SUBMITTED"]
    [free] = {"first", "last"} - {done}
    with pytest.raises(Conflict, match=f"is {done} of movement {desk.request_id}'s already"):
        await take(desk, free, (await desk.node(done))["provider_refs"]["reference"])


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (answer(S.REJECTED, error_message="it differs in amount"), "it differs in amount"),
        (answer(S.UNKNOWN, error_message="no node answers"), "no node answers; try again"),
        (ExecutionResult(status=S.ACCEPTED), "without evidence"),
        (answer(S.COMPLETED), "answered COMPLETED"),
    ],
)
async def test_what_the_executor_does_not_vouch_for_is_not_adopted(
    desk: Desk, said: ExecutionResult, message: str
) -> None:
    await desk.begin(PAIR)
    before = await desk.node()
    desk.provider.will("adopt", "first", said)
    with pytest.raises(Conflict, match=message):
        await take(desk)
    assert await desk.node() == {**before, "due_in": None}


async def test_who_cannot_adopt_says_so(desk: Desk) -> None:
    await desk.begin(plan_of(node("first"), manual("manual_check")))
    with pytest.raises(Conflict, match=r"exec\.local\.move, which can adopt nothing"):
        await take(desk)
    with pytest.raises(Conflict, match="complete it instead"):
        await take(desk, "manual_check")
    with pytest.raises(InvalidInput, match="reference"):
        await take(desk, reference=" ")


async def test_a_failed_node_adopts_without_ever_being_open_to_a_dispatch(desk: Desk) -> None:
    await desk.begin(PAIR)
    desk.will("submit", "first", S.REJECTED)
    await desk.dispatch()
    assert await desk.request_state() == "FAILED"
    await take(desk)
    assert (await desk.node())["attempt_no"] == 2
    assert await desk.request_state() == "EXECUTING"
    assert await desk.dispatch() == 0
    await desk.observe()
    assert (await desk.states())["first"] == "COMPLETED"


async def test_a_stopped_movement_goes_on_once_its_uncertain_node_has_adopted(desk: Desk) -> None:
    await desk.begin(PAIR)
    await desk.dispatch()
    await desk.observe()
    desk.will("submit", "last", S.UNKNOWN)
    await desk.dispatch()
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    await take(desk, "last")
    assert await desk.request_state() == "EXECUTING"
    await desk.observe()
    assert await desk.request_state() == "COMPLETED"


RESERVE = """
    INSERT INTO qtg.evm_nonce_reservation (chain, sender, nonce, request_node_id, attempt_no, reservation_state)
    SELECT 'eip155:1', '0xaa', 7, id, 1, 'RESERVED' FROM qtg.movement_request_nodes WHERE node_key = 'first'
"""
SIGN = """
    INSERT INTO qtg.signer_journal (chain, sender, nonce, request_node_id, role, effect_hash)
    SELECT 'eip155:1', '0xaa', 7, id, 'attempt:1', 'e' FROM qtg.movement_request_nodes WHERE node_key = 'first'
"""


async def test_a_nonce_that_nobody_signed_is_given_back(desk: Desk) -> None:
    await desk.begin(PAIR)
    await desk.sql(RESERVE)
    await take(desk)
    [held] = await desk.rows("SELECT reservation_state, evidence_step_id FROM qtg.evm_nonce_reservation")
    assert held["reservation_state"] == "RELEASED"
    assert held["evidence_step_id"] == (await desk.steps())[-1]["id"]


@pytest.mark.parametrize(("nonce", "fits"), [("6", False), ("7", True), ("8", True)])
async def test_a_signed_nonce_is_not_left_unused(desk: Desk, nonce: str, fits: bool) -> None:
    await desk.begin(PAIR)
    await desk.sql(RESERVE)
    await desk.sql(SIGN)
    desk.provider.will("adopt", "first", answer(S.ACCEPTED, provider_refs={"reference": "0xbeef", "nonce": nonce}))
    if fits:
        await take(desk)
    else:
        with pytest.raises(Conflict, match="has signed nonce 7"):
            await take(desk)
    assert (await desk.states())["first"] == ("SUBMITTED" if fits else "READY")


async def test_whoever_is_called_for_hears_that_the_node_could_adopt(desk: Desk) -> None:
    watched = plan_of(node("first"), node("last", executor=KEY), edges=(("first", "last"),))
    await desk.begin(watched, callback_url="https://desk.example/")
    await desk.dispatch()
    await desk.observe()
    desk.will("submit", "last", ResultStatus.REJECTED)
    await desk.dispatch()
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    [told] = [row["payload"] for row in await desk.callbacks() if row["event_type"] == "request_attention"]
    assert told["allowed_actions"] == ["cancel", "retry last", "adopt last"]


@pytest.mark.parametrize("status", [S.COMPLETED, S.ACCEPTED, S.OBSERVING, S.FAILED])
async def test_a_recovery_that_finds_what_another_node_has_settles_nothing(desk: Desk, status: S) -> None:
    others = await desk.begin(THEIRS)
    await take(desk, "theirs", request_id=others)
    await desk.begin(PAIR)
    desk.will("submit", "first", TimeoutError("reply lost"))
    await desk.dispatch()
    await desk.make_due()
    desk.will("recover", "first", answer(status, provider_refs={"reference": "0xbeef"}))
    await desk.recover()
    row = await desk.node()
    assert (row["node_state"], row["error_code"]) == ("UNKNOWN", "FOUND_ANOTHERS")
    assert f"theirs of movement {others}" in row["error_message"]
    assert "reference" not in row["provider_refs"]


async def test_a_recovery_that_finds_what_nobody_else_has_settles_it(desk: Desk) -> None:
    others = await desk.begin(THEIRS)
    await take(desk, "theirs", request_id=others)
    await desk.begin(PAIR)
    desk.will("submit", "first", TimeoutError("reply lost"))
    await desk.dispatch()
    await desk.make_due()
    desk.will("recover", "first", answer(S.COMPLETED, provider_refs={"reference": "0xcafe"}))
    await desk.recover()
    assert (await desk.node())["node_state"] == "COMPLETED"
