"""A venue that wants to know beneficiaries is told at the last moment, and nothing else ever hears of them."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.lanes.cex import travel_rule
from qtg_dagster.lanes.cex.venue import Order
from qtg_dagster.sandbox.exchange.control import WITHDRAW, WITHDRAWAL_HISTORY
from qtg_dagster.sandbox.exchange.faults import FaultKind
from tests.lanes.cex.venues.bench import DESTINATION, Bench, benches
from tests.lanes.cex.venues.test_venue_sweep import ANYWHERE

K = FaultKind
EVERYWHERE = pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
TELLING = pytest.mark.parametrize("bench", [b for b in benches() if b.beneficiary], ids=lambda bench: bench.wire)
BINANCE = next(bench for bench in benches() if bench.wire == "binance")
SOME = {"name": "Wilhelmina Quistgaard"}
PERSONAL = ("Wilhelmina", "Quistgaard")
FIELD = "venues.venue_a.travel_rule"
LOCAL = "/sapi/v1/localentity/withdraw/apply"
SWEPT = (
    *("reply lost", "request lost", "500", "524", "200 html", "cut short", "redirect", "redirect, executed"),
    *("answers late", "arrives twice, second answered", "202", "200 id zero"),
)
NOT_TAKEN = {"trId": 77, "accpted": False, "info": "Wilhelmina Quistgaard is not known there"}


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a document down where the inventory says that it is."""

    def write(document: Any) -> dict[str, Any]:
        monkeypatch.setenv("DESK_BENEFICIARIES", document if isinstance(document, str) else json.dumps(document))
        return {"travel_rule": {"env": "DESK_BENEFICIARIES"}}

    return write


@pytest.fixture
def rule(open_desk: Any, keep: Any) -> Any:
    """Open a desk at a venue that wants to know beneficiaries, with one for the destination."""

    async def start(bench: Bench, **entry: Any) -> Any:
        desk = await open_desk(bench, **keep({DESTINATION: bench.beneficiary}), **entry)
        await desk.control.set_conditions("venue_a", travel_rule=True)
        return desk

    return start


@EVERYWHERE
async def test_what_is_wanted_and_not_kept_is_asked_for(bench: Bench, open_desk: Any, order: Any, keep: Any) -> None:
    desk = await open_desk(bench, travel_rule_required=True)
    documents: dict[str, Any] = {
        "wants to know the beneficiary": None,
        "is missing or empty": "",
        "wants to know the beneficiary at 0xabab": {"0x" + "ee" * 20: SOME, f"{DESTINATION}|7": SOME},
        "no JSON object": "Wilhelmina",
        "no object with the venue's fields": {DESTINATION: "Wilhelmina"},
    }
    for says, document in documents.items():
        named = {} if document is None else keep(document)
        answer = await desk.again(**named).executor("withdrawal_action").preflight(order())
        assert (answer.status, answer.evidence["field"]) == (ResultStatus.REJECTED, FIELD), says
        assert says in answer.error_message
        assert answer.evidence["fix"]
        assert "Wilhelmina" not in str(answer)
    kept = desk.again(**keep({DESTINATION: bench.beneficiary or SOME})).executor("withdrawal_action")
    answer = await kept.preflight(order())
    assert answer is None or "takes nothing about beneficiaries" in answer.error_message
    assert await desk.posts() == 0


@TELLING
async def test_a_told_withdrawal_is_accepted_followed_and_written_down_nowhere(
    bench: Bench, rule: Any, order: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    desk = await rule(bench)
    action = desk.executor("withdrawal_action")
    assert await action.preflight(order()) is None
    prepared = await action.prepare(order())
    accepted = await action.submit(order(), prepared)
    assert accepted.status is ResultStatus.ACCEPTED, accepted
    (made,) = await desk.executed()
    seen = await action.observe(order({"prepared": prepared, "node_refs": accepted.provider_refs}))
    assert seen.status is ResultStatus.COMPLETED
    assert seen.provider_refs["exchange_withdrawal_id"] == accepted.provider_refs["exchange_withdrawal_id"]
    ids = {"withdrawal_id": seen.provider_refs["exchange_withdrawal_id"], "client_id": made["order_id"]}
    followed = await desk.executor("withdrawal_observe").observe(order(amount=None, destination=None, **ids))
    assert followed.status is ResultStatus.OBSERVING
    assert followed.evidence["rows"]
    written = "".join(map(repr, (prepared, accepted, seen, followed))) + caplog.text
    assert not [text for text in PERSONAL if text in written]
    assert len(json.loads(prepared.payload)["beneficiary"]) == 64


@TELLING
async def test_what_was_changed_since_it_was_prepared_is_not_sent(
    bench: Bench, rule: Any, order: Any, keep: Any
) -> None:
    desk = await rule(bench)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    for document in ({DESTINATION: {**bench.beneficiary, "more": "1"}}, {"0x" + "ee" * 20: bench.beneficiary}, ""):
        keep(document)
        answer = await action.submit(order(), prepared)
        assert (answer.status, answer.evidence["field"]) == (ResultStatus.REJECTED, FIELD)
    assert await desk.posts() == 0
    keep({DESTINATION.upper().replace("0X", "0x"): dict(reversed(bench.beneficiary.items()))})  # the same, respelt
    assert (await action.submit(order(), prepared)).status is ResultStatus.ACCEPTED


@TELLING
async def test_the_digest_is_of_no_use_to_who_guesses_names(bench: Bench, rule: Any, order: Any) -> None:
    """Another account's secret gives another digest of the same person."""
    desk = await rule(bench)
    prepared = json.loads((await desk.executor("withdrawal_action").prepare(order())).payload)
    other = desk.again(api_secret={"env": "DESK_BENEFICIARIES"})
    (account,) = other.lane.accounts
    kept = travel_rule._kept_for(account, _order_of(prepared))
    assert kept is not None
    assert kept.digest != prepared["beneficiary"]


def _order_of(prepared: dict[str, Any]) -> Order:
    names = ("coin", "network", "address", "memo", "amount", "client_id")
    return Order(**{name: prepared[name] for name in names})


async def test_binance_is_asked_and_says_when_it_wants_to_know(open_desk: Any, order: Any, keep: Any) -> None:
    desk = await open_desk(BINANCE, **keep({DESTINATION: BINANCE.beneficiary}))
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    assert "beneficiary" not in json.loads(prepared.payload)
    await desk.control.set_conditions("venue_a", travel_rule=True)
    refused = await action.submit(order(), prepared)  # the account came under the rule in between
    assert (refused.status, refused.error_code) == (ResultStatus.REJECTED, "-4104")
    answer = await desk.again(travel_rule=None).executor("withdrawal_action").preflight(order())
    assert (answer.status, answer.evidence["field"]) == (ResultStatus.REJECTED, FIELD)
    waived = desk.again(travel_rule=None, travel_rule_required=False).executor("withdrawal_action")
    assert await waived.preflight(order()) is None


@pytest.mark.parametrize("name", SWEPT)
async def test_whatever_goes_wrong_under_the_rule_the_books_agree(name: str, rule: Any, order: Any) -> None:
    desk = await rule(BINANCE)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    kind, details = ANYWHERE[name]
    await desk.control.order(kind, venue="venue_a", endpoint=LOCAL, **details)
    submitted = await action.submit(order(), prepared)
    recovered = await action.recover(order({"prepared": prepared, "node_refs": submitted.provider_refs}))
    executed = await desk.executed()
    assert await desk.posts() == 1
    assert await desk.control.faults() == [], "the fault hit"
    assert submitted.status in (ResultStatus.UNKNOWN, ResultStatus.ACCEPTED)
    if len(executed) == 1:
        assert recovered.status is ResultStatus.COMPLETED, recovered
        assert executed[0]["id"] in json.dumps(recovered.evidence)
    else:
        assert recovered.status is ResultStatus.UNKNOWN
        assert len(recovered.evidence["rows"]) == len(executed)


@pytest.mark.parametrize("executes", [False, True])
async def test_what_binance_does_not_take_is_looked_up(executes: bool, rule: Any, order: Any) -> None:
    desk = await rule(BINANCE)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    reply = {"status": 200, "body": json.dumps(NOT_TAKEN), "executes": executes}
    await desk.control.order(K.REPLY, venue="venue_a", endpoint=WITHDRAW, **reply)
    submitted = await action.submit(order(), prepared)
    assert submitted.status is ResultStatus.UNKNOWN
    assert "[redacted] is not known there" in submitted.error_message
    assert not [text for text in PERSONAL if text in repr(submitted)]
    looked = await action.recover(order({"prepared": prepared, "node_refs": submitted.provider_refs}))
    assert looked.status is (ResultStatus.COMPLETED if executes else ResultStatus.UNKNOWN)


async def test_an_answer_that_was_not_attested_is_neither_taken_nor_called_off(
    open_desk: Any, order: Any, keep: Any
) -> None:
    desk = await open_desk(BINANCE, **keep({DESTINATION: {**BINANCE.beneficiary, "isAttested": False}}))
    await desk.control.set_conditions("venue_a", travel_rule=True)
    action = desk.executor("withdrawal_action")
    answer = await action.submit(order(), await action.prepare(order()))
    assert answer.status is ResultStatus.UNKNOWN
    assert await desk.executed() == []


@pytest.mark.parametrize(
    ("fields", "means", "code"),
    [
        ({"travelRuleStatus": 1}, ResultStatus.OBSERVING, "HELD_AT_VENUE"),
        ({"travelRuleStatus": 2}, ResultStatus.OBSERVING, "HELD_AT_VENUE"),
        ({"travelRuleStatus": 1, "withdrawalStatus": None}, ResultStatus.OBSERVING, "HELD_AT_VENUE"),
        ({"travelRuleStatus": 0, "withdrawalStatus": None}, ResultStatus.OBSERVING, None),
        ({"travelRuleStatus": 7}, ResultStatus.OBSERVING, "UNLISTED_STATUS"),
        ({"travelRuleStatus": 0, "withdrawalStatus": 4}, ResultStatus.OBSERVING, None),
        ({"travelRuleStatus": 0, "withdrawalStatus": 99}, ResultStatus.OBSERVING, "UNLISTED_STATUS"),
        ({"travelRuleStatus": 0, "withdrawalStatus": 5}, ResultStatus.FAILED, "WITHDRAWAL_FAILED"),
        ({"travelRuleStatus": 2, "withdrawalStatus": 3}, ResultStatus.FAILED, "WITHDRAWAL_FAILED"),
        ({"travelRuleStatus": 2, "withdrawalStatus": 1}, ResultStatus.FAILED, "WITHDRAWAL_CANCELLED"),
    ],
)
async def test_what_the_record_under_the_rule_says(
    fields: dict[str, Any], means: ResultStatus, code: str | None, rule: Any, order: Any
) -> None:
    desk = await rule(BINANCE)
    action = desk.executor("withdrawal_action")
    refs = (await action.submit(order(), await action.prepare(order()))).provider_refs
    (made,) = await desk.executed()
    await desk.control.show_instead("venue_a", made["id"], **fields)
    ids = {"withdrawal_id": refs["exchange_withdrawal_id"], "client_id": refs["withdrawal_client_id"]}
    seen = await desk.executor("withdrawal_observe").observe(order(amount=None, destination=None, **ids))
    assert (seen.status, seen.error_code) == (means, code)


async def test_both_records_are_read_and_no_withdrawal_is_seen_twice(rule: Any, order: Any) -> None:
    desk = await rule(BINANCE)
    action = desk.executor("withdrawal_action")
    told = await action.prepare(order())
    await action.submit(order(), told)
    (made,) = await desk.executed()
    await desk.control.set_conditions("venue_a", travel_rule=False)
    plain_order = order({"idempotency_key": "n1:2"})
    plain = await action.prepare(plain_order)
    refs = (await action.submit(plain_order, plain)).provider_refs
    context = order({"idempotency_key": "n1:2", "prepared": plain, "node_refs": refs})
    assert (await action.observe(context)).status is ResultStatus.COMPLETED
    found = await action.observe(order({"prepared": told}))
    assert found.status is ResultStatus.COMPLETED
    # Where the first record shows it as well, it is one withdrawal still.
    row = found.evidence["rows"][0]
    shown = {**{name: value for name, value in row.items() if name not in ("trId", "questionnaire")}, "status": 4}
    history = "/sapi/v1/capital/withdraw/history"
    await desk.control.order(K.REPLY, venue="venue_a", endpoint=history, status=200, body=json.dumps([shown]))
    again = await action.observe(order({"prepared": told}))
    assert again.status is ResultStatus.COMPLETED
    assert again.provider_refs["exchange_withdrawal_id"].startswith("tr")
    assert row["id"] == made["id"]


async def test_a_look_at_the_wrong_record_proves_nothing(rule: Any, order: Any) -> None:
    """Somebody removes the document while a withdrawal is under way."""
    desk = await rule(BINANCE)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await action.submit(order(), prepared)
    looked = await desk.again(travel_rule=None).executor("withdrawal_action").recover(order({"prepared": prepared}))
    assert (looked.status, looked.error_code) == (ResultStatus.UNKNOWN, "LOOKUP_FAILED")
    assert looked.provider_refs == {}
    assert "Put it back" in looked.error_message


async def test_nothing_is_adopted_while_the_nodes_own_request_cannot_be_looked_for(
    rule: Any, order: Any, clock: Any
) -> None:
    """Else a movement would count somebody's withdrawal beside one of its own."""
    desk = await rule(BINANCE)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await action.submit(order(), prepared)  # its answer is lost: the node knows of no id
    await desk.control.set_conditions("venue_a", travel_rule=False)
    by_hand = desk.again(travel_rule=None).executor("withdrawal_action")
    other = order({"idempotency_key": "of-others"})
    made = await by_hand.submit(other, await by_hand.prepare(other))
    reference = made.provider_refs["exchange_withdrawal_id"]
    row = {"withdrawOrderId": None}
    await desk.control.show_instead("venue_a", reference, **row)
    clock.advance(600)
    answer = await by_hand.adopt(order({"prepared": prepared}), reference)
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "LOOKUP_FAILED")
    assert "Put it back" in answer.error_message
    kept = await action.adopt(order({"prepared": prepared}), reference)
    assert (kept.status, kept.error_code) == (ResultStatus.REJECTED, "OWN_ATTEMPT_OPEN")


async def test_pages_of_both_records_are_read(rule: Any, order: Any) -> None:
    """Adoption by a transaction's hash reads the whole record: those of the first stand behind those of the second."""
    desk = await rule(BINANCE)
    action = desk.executor("withdrawal_action")
    made = await action.submit(order(), await action.prepare(order()))
    await desk.control.add_rows("venue_a", WITHDRAWAL_HISTORY, 3, coin="ETH")
    adopted = await action.adopt(order({"idempotency_key": "other"}), "0x" + "12" * 32)
    assert (adopted.status, adopted.error_code) == (ResultStatus.REJECTED, "NOT_ONE_ON_RECORD")
    asked = [row["endpoint"] for row in await desk.control.requests(venue="venue_a", endpoint=WITHDRAWAL_HISTORY)]
    assert {"/sapi/v1/capital/withdraw/history", "/sapi/v2/localentity/withdraw/history"} <= set(asked)
    same = order({"idempotency_key": "other"})
    taken = await action.adopt(same, made.provider_refs["exchange_withdrawal_id"])
    assert taken.status is ResultStatus.ACCEPTED
