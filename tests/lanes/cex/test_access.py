"""A venue's refusal to let us in is read from any readable answer, told with its fix, and proves nothing of money."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.lanes.cex.access import REMEDIES, AccessRefused, access_refusal
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.answers import lookup_failed, not_let_in
from qtg_dagster.lanes.cex.outcome import decide
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply, exact_json
from qtg_dagster.lanes.cex.transport import Transport
from qtg_dagster.lanes.cex.venue import Access, Call
from qtg_dagster.lanes.cex.venues.binance import ACCESS_CODES, VENUE
from qtg_dagster.lanes.cex.venues.kraken import VENUE as KRAKEN

PERMISSIONS = "/venue_a/sapi/v1/account/apiRestrictions"
HISTORY = "/venue_a/sapi/v1/capital/withdraw/history"


def reply(code: Any, words: str = "", status: int = 401, **headers: str) -> RawReply:
    return RawReply(sent=True, status=status, headers=headers, json={"code": code, "msg": words})


def test_every_reason_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Access)
    assert {kind for kind, remedy in REMEDIES.items() if remedy.field is None} == {
        Access.CLOCK,
        Access.NONCE,
        Access.LOCKED_OUT,
        Access.MAINTENANCE,
    }


@given(st.sampled_from(sorted(ACCESS_CODES)), st.integers(100, 599), st.text(max_size=30))
def test_a_listed_code_is_seen_under_any_status(code: str, status: int, words: str) -> None:
    refusal = access_refusal("desk", VENUE, reply(int(code), words, status))
    assert refusal is not None
    assert refusal.kind is ACCESS_CODES[code]
    assert isinstance(refusal, LookupFailed)
    assert code in str(refusal)
    assert refusal.remedy.fix in str(refusal)


@given(
    st.one_of(st.none(), st.integers(-9999, 300), st.text(max_size=6)).filter(
        lambda code: str(code) not in ACCESS_CODES
    )
)
def test_no_other_code_is_taken_for_one(code: Any) -> None:
    assert access_refusal("desk", VENUE, reply(code)) is None


@pytest.mark.parametrize("body", [None, [], [{"code": -2015}], {}, {"code": {}}, {"msg": "Invalid API-key"}])
def test_what_names_no_code_is_none(body: Any) -> None:
    assert access_refusal("desk", VENUE, RawReply(sent=True, status=401, json=body)) is None


@pytest.mark.parametrize("kind", [kind for kind in Access if REMEDIES[kind].field is not None])
def test_what_does_not_pass_names_the_field_of_the_inventory(kind: Access) -> None:
    answer = not_let_in(AccessRefused("desk", kind, "77", "go away"))
    assert answer.status is ResultStatus.REJECTED
    assert answer.evidence["field"] == f"venues.desk.{REMEDIES[kind].field}"
    assert "go away (77)" in answer.evidence["problem"]
    assert answer.evidence["fix"] == REMEDIES[kind].fix


@pytest.mark.parametrize("kind", [kind for kind in Access if REMEDIES[kind].field is None])
def test_what_passes_is_asked_again(kind: Access) -> None:
    answer = not_let_in(AccessRefused("desk", kind, "77", "later", retry_after_seconds=9))
    assert (answer.status, answer.retry_after_seconds) == (ResultStatus.NOT_SENT, 9)
    assert answer.error_message is not None
    assert "later (77)" in answer.error_message
    assert REMEDIES[kind].fix in answer.error_message


@given(st.sampled_from([ResultStatus.UNKNOWN, ResultStatus.OBSERVING]), st.sampled_from(list(Access)))
def test_as_a_look_up_it_stays_a_failed_one(status: ResultStatus, kind: Access) -> None:
    answer = lookup_failed(status, AccessRefused("desk", kind, "77", "no"))
    assert (answer.status, answer.error_code) == (status, "LOOKUP_FAILED")
    assert answer.error_message is not None
    assert REMEDIES[kind].fix in answer.error_message


def test_its_words_are_redacted_and_cut() -> None:
    refusal = AccessRefused("desk", Access.WRONG_KEY, "1", "api_key=abcdef0123456789 " + "x" * 2_000)
    assert "abcdef0123456789" not in str(refusal)
    assert len(str(refusal)) < 700


async def test_a_key_that_is_refused_is_used_once(lane: Any, venue: Any, work_order: Any, response: Any) -> None:
    """Venues lock out who insists with a wrong key."""
    body = b'{"code":-2015,"msg":"Invalid API-key, IP, or permissions for action."}'
    for path in (PERMISSIONS, "/venue_a/sapi/v3/asset/getUserAsset"):
        venue.on(path, raw=response(401, body))
    answer = await lane.executor("withdrawal_action").preflight(work_order())
    assert answer.status is ResultStatus.REJECTED
    assert answer.evidence["field"] == "venues.venue_a.api_key"
    assert sorted(path for _, path, _ in venue.requests) == [PERMISSIONS, "/venue_a/sapi/v1/system/status"]


@pytest.mark.parametrize("code", sorted(ACCESS_CODES))
async def test_a_look_after_a_lost_answer_stays_unknown(
    code: str, lane: Any, venue: Any, work_order: Any, response: Any
) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    venue.on_submit(no_bytes=True)
    assert (await action.submit(work_order(), prepared)).status is ResultStatus.UNKNOWN
    venue.on(HISTORY, raw=response(400, b'{"code":%s,"msg":"no"}' % code.encode()))
    looked = await action.recover(work_order({"prepared": prepared}))
    assert (looked.status, looked.error_code) == (ResultStatus.UNKNOWN, "LOOKUP_FAILED")
    assert REMEDIES[ACCESS_CODES[code]].fix in looked.error_message
    assert looked.provider_refs == {}  # it counts towards no proof of absence
    venue.behave()
    assert (await action.recover(work_order({"prepared": prepared}))).status is ResultStatus.COMPLETED


@pytest.mark.parametrize("code", sorted(ACCESS_CODES))
async def test_a_withdrawal_that_is_not_let_in_is_told_with_the_fix(
    code: str, lane: Any, venue: Any, work_order: Any, response: Any
) -> None:
    """Rights that cannot be asked for are missed at the withdrawal itself; what the answer proves stays as it is."""
    action = lane.executor("withdrawal_action")
    body = b'{"code":%s,"msg":"not you"}' % code.encode()
    venue.on_submit(raw=response(400, body), executes=False)
    answer = await action.submit(work_order(), await action.prepare(work_order()))
    refusal = decide(RawReply(sent=True, status=400, json=exact_json(body.decode())), VENUE.submit_rules)
    assert answer.error_code == refusal.error_code == code
    if not refusal.confirm_first:  # a refusal that is looked up first says so instead
        assert answer.status is ResultStatus(refusal.verdict.value)
        assert REMEDIES[ACCESS_CODES[code]].fix in answer.error_message
        assert f"not you ({code})" in answer.error_message


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        (["EAPI:Invalid key"], Access.WRONG_KEY),
        (["EQuery:Unknown asset", "EService:Unavailable"], Access.MAINTENANCE),
        (["EQuery:Unknown asset"], None),
        ([{"no": "text"}], None),
        ([], None),
        ("EAPI:Invalid key", None),
    ],
)
def test_one_of_several_errors_may_keep_us_out(errors: Any, kind: Access | None) -> None:
    refusal = access_refusal("desk", KRAKEN, RawReply(sent=True, status=200, json={"error": errors}))
    assert (None if refusal is None else refusal.kind) is kind


async def test_who_is_locked_out_does_not_insist(make_inventory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    account = VenueAccount("desk", make_inventory("http://127.0.0.1:1", wire="kraken").venues["venue_a"])
    asked: list[str] = []

    async def call(_: Transport, made: Call) -> RawReply:
        asked.append(made.method)
        return RawReply(sent=True, status=200, json={"error": ["EGeneral:Temporary lockout"]})

    monkeypatch.setattr(Transport, "call", call)
    with pytest.raises(AccessRefused, match="LOCKED_OUT"):
        await account.permission_problem()
    with pytest.raises(LookupFailed, match="PAUSED") as paused:
        await account.permission_problem()
    assert len(asked) == 1
    assert paused.value.retry_after_seconds == pytest.approx(300, abs=5)
