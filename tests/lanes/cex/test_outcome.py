"""The decision table: doubt is UNKNOWN, and only a listed refusal in readable JSON may end a withdrawal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules, Verdict, decide, usable_id
from qtg_dagster.lanes.cex.reply import RawReply, exact_json
from qtg_dagster.lanes.cex.venues.binance import REFUSALS, VENUE

RULES = VENUE.submit_rules
codes = st.one_of(
    st.sampled_from(sorted(REFUSALS)).map(int), st.integers(-9999, 300), st.sampled_from(["0", "-1021", "", None])
)
ids = st.one_of(st.none(), st.sampled_from([0, "0", "", " ", "null", False, True, 0.5, "w1", 77, [], {}]), st.text())
objects = st.fixed_dictionaries(
    {},
    optional={"code": codes, "id": ids, "msg": st.text(max_size=20), "success": st.booleans(), "status": st.text()},
)
bodies = st.one_of(objects, st.none(), st.lists(objects, max_size=2))
replies = st.builds(
    RawReply,
    sent=st.booleans(),
    status=st.one_of(st.none(), st.integers(100, 999)),
    json=bodies,
    error=st.one_of(st.none(), st.text()),
)


@given(replies)
def test_nothing_sent_is_called_off_without_a_listed_code(reply: RawReply) -> None:
    outcome = decide(reply, RULES)
    if outcome.verdict is Verdict.NOT_SENT:
        assert not reply.sent
    if outcome.verdict is Verdict.REJECTED:
        assert reply.sent
        assert isinstance(reply.json, dict)
        assert str(reply.json["code"]) in REFUSALS
        assert reply.status is not None
        assert reply.status // 100 in (2, 4)
        assert usable_id(reply.json.get("id")) is None


@given(replies)
def test_acceptance_needs_a_2xx_and_an_id(reply: RawReply) -> None:
    outcome = decide(reply, RULES)
    if outcome.verdict is Verdict.ACCEPTED:
        assert reply.sent
        assert reply.status is not None
        assert reply.status // 100 == 2
        assert outcome.withdrawal_id
        assert outcome.withdrawal_id.strip("0 ")


@given(replies)
def test_an_unsent_request_is_not_sent_whatever_else_is_seen(reply: RawReply) -> None:
    unsent = RawReply(sent=False, status=reply.status, json=reply.json)
    assert decide(unsent, RULES).verdict is Verdict.NOT_SENT


@given(st.integers(300, 399) | st.integers(500, 999) | st.sampled_from([408, 409, 425, 499]), objects)
def test_undecided_statuses_are_unknown_even_with_a_code(status: int, body: dict[str, Any]) -> None:
    reply = RawReply(sent=True, status=status, json=body)
    assert decide(reply, RULES).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("value", [None, "", " ", 0, "0", "00", "0.0", "-0", "null", "None", False, True, 1.5, [], {}])
def test_these_are_no_ids(value: Any) -> None:
    assert usable_id(value) is None


@pytest.mark.parametrize(("value", "text"), [("b6ae", "b6ae"), (17, "17"), (" w1 ", "w1"), ("10", "10")])
def test_these_are_ids(value: Any, text: str) -> None:
    assert usable_id(value) == text


@pytest.mark.parametrize(
    "body",
    [
        {"status": "error", "message": "balance is 0", "withdrawal_id": 0, "fees": "0.0027"},
        {"code": "0", "msg": "", "data": []},
        {"code": "200000", "data": {}},
        {"success": False, "id": "w1"},
    ],
)
def test_a_2xx_without_a_proper_id_is_unknown(body: dict[str, Any]) -> None:
    assert decide(RawReply(sent=True, status=200, json=body), RULES).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (RawReply(sent=False), "NOT_SENT"),
        (RawReply(sent=True), "NO_ANSWER"),
        (RawReply(sent=True, status=400), "UNREADABLE"),
        (RawReply(sent=True, status=524, json={}), "HTTP_524"),
        (RawReply(sent=True, status=400, json={"code": -1007}), "-1007"),
    ],
)
def test_the_reason_is_named(reply: RawReply, code: str) -> None:
    assert decide(reply, RULES).error_code == code


def test_an_id_beside_an_error_is_a_hint() -> None:
    outcome = decide(RawReply(sent=True, status=200, json={"code": -1021, "msg": "x", "id": "w9"}), RULES)
    assert (outcome.verdict, outcome.withdrawal_id) == (Verdict.UNKNOWN, "w9")


def test_a_duplicate_is_looked_up_and_never_rejected() -> None:
    reply = RawReply(sent=True, status=400, json={"code": -2015, "msg": "Duplicate withdrawOrderId"})
    assert decide(reply, RULES).verdict is Verdict.DUPLICATE


def test_a_used_nonce_is_looked_up_on_a_wire_that_has_no_ids() -> None:
    """A perpetuals venue's words: whatever took the nonce may be the first copy of this very request."""

    def read(body: Any) -> SubmitBody:
        failed = body.get("status") == "err"
        return SubmitBody(error_code="err" if failed else None, message=str(body.get("response")), success=not failed)

    rules = SubmitRules(read=read, refusals=frozenset(), duplicate_texts=("duplicate nonce",))
    said = {"status": "err", "response": "Invalid nonce: duplicate nonce 1788895523507"}
    assert decide(RawReply(sent=True, status=200, json=said), rules).verdict is Verdict.DUPLICATE


@pytest.mark.parametrize(("code", "first"), [(-1021, True), (-4001, True), (-4026, True), (-1022, False)])
def test_what_a_copy_may_be_answered_with_is_confirmed_first(code: int, first: bool) -> None:
    found = decide(RawReply(sent=True, status=400, json={"code": code, "msg": ""}), RULES)
    assert (found.verdict, found.confirm_first) == (Verdict.REJECTED, first)


def test_fractions_keep_their_digits() -> None:
    assert exact_json('{"a":0.100000000000000005,"b":1e-7,"c":18446744073709551617}') == {
        "a": "0.100000000000000005",
        "b": "1e-7",
        "c": 18446744073709551617,
    }


@pytest.mark.parametrize("text", [None, "", "null", "1", '"x"', "{", "[1", '{"a":NaN}', '{"a":"\ufffd"}', "<html>"])
def test_what_is_not_whole_json_is_unreadable(text: str | None) -> None:
    assert exact_json(text) is None


@given(st.text())
def test_reading_never_raises(text: str) -> None:
    exact_json(text)
