"""Old CCIP sends: closed by the proof of their own attempt, else shown once; their nodes stay as they are."""

from __future__ import annotations

from typing import Any

import pytest

from qtg_dagster.domain.ccip_sends import Resolution
from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import Conflict, IllegalMove, InvalidInput, NotFound
from qtg_dagster.engine.requests import publish_template
from qtg_dagster.store.ccip_sends import (
    SendIntent,
    mark_sent,
    record_send_intent,
    resolve_send,
    stranded_sends,
)
from qtg_dagster.store.database import Database
from qtg_dagster.store.roles import SENDER
from qtg_dagster.upkeep.ccip_reaper import count_old_sends, reap_stranded_sends
from tests.conftest import as_role
from tests.engine.desk import Desk, Row
from tests.engine.plans import begin, node, plan_of

SELECTOR = 15971525489660198786  # Base: above what a signed 64-bit number holds
SENDER_ADDRESS = "0x" + "5e" * 20
MESSAGE = {"tx_hash": "0xfeed", "message_id": "0x" + "ab" * 32}
PLAN = plan_of(node("send", executor="exec.ccip.send"), key="bridge")


def intent_of(node_id: str, **values: Any) -> SendIntent:
    given = {"attempt_no": 1, "source_chain": "eip155:1", "destination_selector": SELECTOR, "router": "0xrouter"}
    return SendIntent(**{"request_node_id": node_id, **given, "sender": SENDER_ADDRESS, "nonce": 7, **values})


async def sending(desk: Desk, answer: ResultStatus | None = None) -> str:
    """A node whose send was answered like this, with the intent that its lane wrote beside its own; its id."""
    request_id = await begin(desk.engine, PLAN)
    if answer is not None:
        desk.will("submit", "send", answer)
    await desk.dispatch()
    [row] = await desk.rows("SELECT id::text AS id FROM qtg.movement_request_nodes WHERE request_id::text = :r",
                            r=request_id)  # fmt: skip
    async with desk.engine.database.transaction() as tx:
        await record_send_intent(tx, intent_of(row["id"]))
    return str(row["id"])


async def grow_old(desk: Desk) -> None:
    await desk.sql(
        "UPDATE qtg.ccip_send_intent SET intended_at = intended_at - interval '2 hours', "
        "sent_at = sent_at - interval '2 hours'"
    )


async def send(desk: Desk) -> Row:
    [row] = await desk.rows("SELECT * FROM qtg.ccip_send_intent")
    return row


async def old(desk: Desk) -> int:
    settings = desk.engine.settings
    return await count_old_sends(
        desk.engine.database, settings.network_class, settings.ccip_send_intent_max_age_seconds
    )


async def audited(desk: Desk) -> list[str]:
    rows = await desk.rows("SELECT action FROM qtg.audit_outbox WHERE subject_type = 'ccip_send_intent' ORDER BY id")
    return [row["action"] for row in rows]


async def test_a_young_send_is_left_alone_whatever_its_state(desk: Desk) -> None:
    await sending(desk, ResultStatus.UNKNOWN)
    assert (await old(desk), await reap_stranded_sends(desk.engine)) == (0, 0)
    assert (await send(desk))["send_state"] == "INTENT"


async def test_an_old_send_that_nobody_knows_the_end_of_is_shown_once_and_its_node_stays_unknown(desk: Desk) -> None:
    node_id = await sending(desk, ResultStatus.UNKNOWN)
    await grow_old(desk)
    assert (await old(desk), await reap_stranded_sends(desk.engine)) == (1, 1)
    found = await send(desk)
    assert (found["send_state"], found["resolution"], found["evidence_step_id"]) == ("STRANDED", None, None)
    for clue in ("eip155:1", "nonce 7", SENDER_ADDRESS, "0xrouter", str(SELECTOR), "ccip.chain.link", "UNKNOWN"):
        assert clue in found["attention"]
    assert (await desk.node_states())[node_id] == "UNKNOWN"
    assert (await old(desk), await reap_stranded_sends(desk.engine)) == (0, 0)
    assert await audited(desk) == ["strand_ccip_send"]


async def test_a_message_that_was_seen_is_looked_for_by_its_id(desk: Desk) -> None:
    node_id = await sending(desk)
    async with desk.engine.database.transaction() as tx:
        await mark_sent(tx, node_id, 1, **MESSAGE)
    await grow_old(desk)
    await reap_stranded_sends(desk.engine)
    found = await send(desk)
    assert found["send_state"] == "STRANDED"
    assert f"https://ccip.chain.link/msg/{MESSAGE['message_id']}" in found["attention"]
    assert "0xfeed" in found["attention"]


@pytest.mark.parametrize("answer", [ResultStatus.NOT_SENT, ResultStatus.REJECTED])
async def test_a_send_that_is_proven_to_have_had_no_effect_is_closed_with_that_proof(
    desk: Desk, answer: ResultStatus
) -> None:
    await sending(desk, answer)
    await grow_old(desk)
    assert await reap_stranded_sends(desk.engine) == 1
    found = await send(desk)
    [attempt] = await desk.rows("SELECT outcome_step_id FROM qtg.movement_node_attempts")
    assert (found["send_state"], found["resolution"]) == ("RESOLVED", "without_effect")
    assert found["evidence_step_id"] == attempt["outcome_step_id"]
    assert await audited(desk) == ["resolve_ccip_send"]


async def test_a_send_whose_node_completed_is_resolved_with_it(desk: Desk) -> None:
    await sending(desk)
    await desk.make_due()
    await desk.observe()
    await grow_old(desk)
    await reap_stranded_sends(desk.engine)
    found = await send(desk)
    assert (found["send_state"], found["resolution"]) == ("RESOLVED", "took_effect")
    assert found["evidence_step_id"] == (await desk.node("send"))["evidence_step_id"]


async def test_the_proof_of_a_later_attempt_says_nothing_of_an_earlier_one(desk: Desk) -> None:
    node_id = await sending(desk, ResultStatus.UNKNOWN)
    async with desk.engine.database.transaction() as tx:
        await record_send_intent(tx, intent_of(node_id, attempt_no=2, nonce=8))
    await desk.sql(
        "INSERT INTO qtg.movement_node_attempts (request_node_id, attempt_no, idempotency_key, prepared, payload_hash, "
        "outcome, outcome_step_id) SELECT id, 2, 'second', '{}', 'h', 'COMPLETED', "
        "(SELECT max(id) FROM qtg.movement_node_steps) FROM qtg.movement_request_nodes"
    )
    await grow_old(desk)
    await reap_stranded_sends(desk.engine)
    rows = await desk.rows("SELECT attempt_no, send_state FROM qtg.ccip_send_intent ORDER BY attempt_no")
    assert [(row["attempt_no"], row["send_state"]) for row in rows] == [(1, "STRANDED"), (2, "RESOLVED")]


async def test_an_outcome_without_its_step_proves_nothing(desk: Desk) -> None:
    await sending(desk, ResultStatus.UNKNOWN)
    await desk.sql("UPDATE qtg.movement_node_attempts SET outcome = 'FAILED', outcome_step_id = NULL")
    await grow_old(desk)
    await reap_stranded_sends(desk.engine)
    assert (await send(desk))["send_state"] == "STRANDED"


async def test_a_send_that_a_living_runner_works_on_waits_and_a_dead_one_s_does_not(desk: Desk) -> None:
    await sending(desk, ResultStatus.UNKNOWN)
    await grow_old(desk)
    await desk.sql("UPDATE qtg.movement_request_nodes SET runner_id = :id", id=desk.runner.runner_id)
    assert (await old(desk), await reap_stranded_sends(desk.engine)) == (0, 0)
    await desk.sql("UPDATE qtg.movement_request_nodes SET runner_id = 2147483647")
    assert (await old(desk), await reap_stranded_sends(desk.engine)) == (1, 1)


async def test_a_stranded_send_is_taken_back_when_its_end_is_proven_or_its_message_is_found(desk: Desk) -> None:
    node_id = await sending(desk, ResultStatus.UNKNOWN)
    await grow_old(desk)
    await reap_stranded_sends(desk.engine)
    async with desk.engine.database.transaction() as tx:
        await mark_sent(tx, node_id, 1, **MESSAGE)
    found = await send(desk)
    assert (found["send_state"], found["attention"]) == ("SENT", None)
    assert await reap_stranded_sends(desk.engine) == 0  # it was found a moment ago
    await grow_old(desk)
    await reap_stranded_sends(desk.engine)
    assert (await send(desk))["send_state"] == "STRANDED"
    await desk.make_due()
    await desk.recover()
    await desk.make_due()
    await desk.observe()
    assert (await old(desk), await reap_stranded_sends(desk.engine)) == (1, 1)
    found = await send(desk)
    assert (found["send_state"], found["resolution"], found["attention"]) == ("RESOLVED", "took_effect", None)
    assert await audited(desk) == ["strand_ccip_send", "strand_ccip_send", "resolve_ccip_send"]


async def test_more_than_a_batch_is_judged_in_one_pass(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qtg_dagster.upkeep.ccip_reaper._BATCH", 2)
    node_id = await sending(desk, ResultStatus.UNKNOWN)
    async with desk.engine.database.transaction() as tx:
        for number in range(2, 6):
            await record_send_intent(tx, intent_of(node_id, attempt_no=number))
    await grow_old(desk)
    assert await reap_stranded_sends(desk.engine) == 5


async def test_the_same_intent_again_changes_nothing_and_another_under_it_is_refused(desk: Desk) -> None:
    node_id = await sending(desk, ResultStatus.UNKNOWN)
    async with desk.engine.database.transaction() as tx:
        first = (await send(desk))["id"]
        assert await record_send_intent(tx, intent_of(node_id)) == first
        with pytest.raises(Conflict, match="has another CCIP send"):
            await record_send_intent(tx, intent_of(node_id, nonce=8))
        with pytest.raises(InvalidInput, match="destination_selector"):
            await record_send_intent(tx, intent_of(node_id, destination_selector=2**64))
        with pytest.raises(NotFound):
            await record_send_intent(tx, intent_of("00000000-0000-0000-0000-000000000000"))


async def test_what_is_resolved_stays_so(desk: Desk) -> None:
    node_id = await sending(desk, ResultStatus.UNKNOWN)
    [first, *_, last] = [row["id"] for row in await desk.steps("send")]
    async with desk.engine.database.transaction() as tx:
        for _ in range(2):
            await resolve_send(tx, node_id, 1, Resolution.TOOK_EFFECT, evidence_step_id=last)
        with pytest.raises(IllegalMove):
            await resolve_send(tx, node_id, 1, Resolution.WITHOUT_EFFECT, evidence_step_id=first)
        with pytest.raises(IllegalMove):
            await mark_sent(tx, node_id, 1, **MESSAGE)
        with pytest.raises(NotFound, match="has no CCIP send"):
            await mark_sent(tx, node_id, 9, **MESSAGE)
    assert (await send(desk))["resolution"] == "took_effect"


async def test_a_chain_that_reorganised_gives_a_message_another_id(desk: Desk) -> None:
    node_id = await sending(desk)
    async with desk.engine.database.transaction() as tx:
        await mark_sent(tx, node_id, 1, **MESSAGE)
        await mark_sent(tx, node_id, 1, tx_hash="0xfeed", message_id="0xother")
    assert (await send(desk))["message_id"] == "0xother"


async def test_the_sender_reads_what_is_stranded(desk: Desk, database_url: str) -> None:
    node_id = await sending(desk, ResultStatus.UNKNOWN)
    await grow_old(desk)
    await reap_stranded_sends(desk.engine)
    sender = Database(as_role(database_url, SENDER), pool_size=1)
    async with sender.transaction() as tx:
        [told] = await stranded_sends(tx, "sandbox")
    await sender.close()
    assert (told.request_node_id, "ccip.chain.link" in told.attention) == (node_id, True)


async def test_another_network_class_is_left_alone(desk: Desk) -> None:
    await publish_template(desk.engine, PLAN)
    await sending(desk, ResultStatus.UNKNOWN)
    await grow_old(desk)
    desk.under(network_class="other")
    assert (await old(desk), await reap_stranded_sends(desk.engine)) == (0, 0)
