"""What preflight refuses, and that it sends no withdrawal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.lanes.cex.venue import FeeRule, NetworkRules
from qtg_dagster.lanes.cex.withdrawal_preflight import check_amount_rules, skew_beyond

DESTINATION = "0x" + "ab" * 20
RESTRICTIONS = "/venue_a/sapi/v1/account/apiRestrictions"
STATUS = "/venue_a/sapi/v1/system/status"
TRON = {"chain": "tron:mainnet", "destination": "TDestination"}
TRON_CONTEXT = {"risk_controls": {"destination_allowlist": ["TDestination"]}}


@pytest.fixture
def preflight(venue: Any, lane: Any, work_order: Any) -> Any:
    async def ask(context: dict[str, Any] | None = None, **config: Any) -> Any:
        answer = await lane.executor("withdrawal_action").preflight(work_order(context, **config))
        assert venue.posts == 0
        return answer

    return ask


async def test_a_sound_withdrawal_passes(preflight: Any) -> None:
    assert await preflight() is None


@pytest.mark.parametrize(
    ("amount", "says"),
    [
        ("0.00000012", "Give at least 0.000001"),
        ("12.00000012", "Give 12."),
        ("1.999999", "below the minimum"),
        ("1000001", "above the maximum"),
        ("1000.000001", "is needed"),
        ("0", "not positive"),
        ("-1", "not a plain decimal"),
        ("1e3", "not a plain decimal"),
        ("1.123456789", "more decimals"),
    ],
)
async def test_these_amounts_are_refused_with_the_fix(amount: str, says: str, preflight: Any) -> None:
    answer = await preflight(amount=amount)
    assert answer.status is ResultStatus.REJECTED
    assert says in answer.error_message
    assert "config.amount" in answer.error_message


async def test_an_alias_of_a_listed_network_goes_out_under_the_venues_name(
    venue: Any, lane: Any, work_order: Any, preflight: Any
) -> None:
    assert await preflight(TRON_CONTEXT, **TRON) is None
    action, context = lane.executor("withdrawal_action"), work_order(TRON_CONTEXT, **TRON)
    await action.submit(context, await action.prepare(context))
    assert venue.withdrawals[0]["network"] == "TRX"


async def test_a_network_the_venue_does_not_list_is_never_passed_through(preflight: Any) -> None:
    answer = await preflight(chain="eip155:2")
    assert answer.status is ResultStatus.REJECTED
    assert "'FOO'" in answer.error_message
    assert "ETH, TRX" in answer.error_message


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"venue": "venue_z"}, "config.venue"),
        ({"asset": "ETH"}, "config.asset"),
        ({"asset": "XYZ"}, "config.asset"),
        ({"chain": "eip155:99"}, "config.chain"),
        ({"destination": "0x12"}, "config.destination"),
        ({"destination": "0x" + "cd" * 20}, "config.destination"),
        ({"amount": None}, "config.amount"),
        ({"max_fee": "0.5"}, "config.max_fee"),
        ({"surprise": "1"}, "config.surprise"),
    ],
)
async def test_the_refusal_names_the_field(config: dict[str, Any], field: str, preflight: Any) -> None:
    answer = await preflight(**config)
    assert answer.status is ResultStatus.REJECTED
    assert answer.evidence["field"] == field


async def test_an_empty_allowlist_allows_nothing(preflight: Any) -> None:
    answer = await preflight({"risk_controls": {}})
    assert answer.status is ResultStatus.REJECTED


async def test_unknown_risk_controls_are_not_ignored(preflight: Any) -> None:
    answer = await preflight({"risk_controls": {"destination_allowlst": []}})
    assert answer.evidence["field"] == "risk_controls"


async def test_the_hard_cap_is_kept(preflight: Any) -> None:
    controls = {"destination_allowlist": [DESTINATION], "hard_cap": "12"}
    answer = await preflight({"risk_controls": controls})
    assert "hard cap" in answer.error_message


async def test_a_tag_is_demanded_where_the_network_needs_one(venue: Any, preflight: Any) -> None:
    venue.networks[0] |= {"sameAddress": True, "memoRegex": "^[0-9]{1,10}$"}
    missing = await preflight()
    misspelt = await preflight(memo="seven")
    assert "needs a memo" in missing.error_message
    assert "no memo of" in misspelt.error_message
    assert await preflight(memo="007") is None
    assert await preflight(memo="no-memo") is None


async def test_a_tag_is_refused_where_the_network_knows_none(preflight: Any) -> None:
    answer = await preflight(memo="7")
    assert answer.evidence["field"] == "config.memo"


async def test_a_waived_tag_is_not_sent(venue: Any, lane: Any, work_order: Any) -> None:
    venue.networks[0] |= {"sameAddress": True}
    action, context = lane.executor("withdrawal_action"), work_order(memo="no-memo")
    await action.submit(context, await action.prepare(context))
    assert "addressTag" not in venue.requests[-1][2]


async def test_a_key_that_may_not_withdraw_is_refused(venue: Any, preflight: Any) -> None:
    venue.answers[RESTRICTIONS] = {"enableWithdrawals": False}
    answer = await preflight()
    assert answer.status is ResultStatus.REJECTED
    assert "api_key" in answer.error_message


async def test_maintenance_is_waited_out(venue: Any, preflight: Any) -> None:
    venue.answers[STATUS] = {"status": 1, "msg": "system maintenance"}
    answer = await preflight()
    assert (answer.status, answer.error_code) == (ResultStatus.NOT_SENT, "VENUE_DOWN")
    assert answer.retry_after_seconds > 0


async def test_a_suspended_network_is_waited_out(venue: Any, preflight: Any) -> None:
    venue.networks[0] |= {"withdrawEnable": False}
    answer = await preflight()
    assert (answer.status, answer.error_code) == (ResultStatus.NOT_SENT, "NETWORK_SUSPENDED")


async def test_a_clock_that_is_off_is_waited_out(venue: Any, preflight: Any) -> None:
    venue.clock_ahead_ms = 2500
    answer = await preflight()
    assert (answer.status, answer.error_code) == (ResultStatus.NOT_SENT, "CLOCK_SKEW")


async def test_a_throttled_venue_is_asked_again_when_it_says(venue: Any, preflight: Any, response: Any) -> None:
    venue.on(RESTRICTIONS, raw=response(429, b'{"code":-1003,"msg":"slow down"}', Retry_After="37"))
    answer = await preflight()
    assert (answer.status, answer.retry_after_seconds) == (ResultStatus.NOT_SENT, 37)


async def test_an_unreadable_venue_is_waited_out(venue: Any, preflight: Any, response: Any) -> None:
    venue.on(STATUS, raw=response(200, b"<html>", "text/html"))
    answer = await preflight()
    assert (answer.status, answer.error_code) == (ResultStatus.NOT_SENT, "VENUE_UNREADABLE")


async def test_a_decimal_in_scientific_notation_is_spelt_plainly(venue: Any, lane: Any, work_order: Any) -> None:
    action, context = lane.executor("withdrawal_action"), work_order(amount=Decimal("1E-7"))
    prepared = await action.prepare(context)
    await action.submit(context, prepared)
    assert '"amount":"0.0000001"' in prepared.payload
    assert venue.requests[-1][2]["amount"] == "0.0000001"


@given(st.integers(0, 10_000), st.integers(-5_000, 15_000))
def test_skew_is_only_what_the_request_itself_cannot_explain(took_ms: int, theirs_ms: int) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    theirs, end = start + timedelta(milliseconds=theirs_ms), start + timedelta(milliseconds=took_ms)
    skew = skew_beyond(theirs, start, end)
    assert skew >= timedelta()
    assert (skew == timedelta()) == (0 <= theirs_ms <= took_ms)


async def test_a_part_of_the_amount_that_is_taken_counts_as_fee(
    lane: Any, work_order: Any, preflight: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (account,) = lane.cex.accounts
    read = account.venue.read_networks

    def with_a_tenth(_: Any, bodies: Any, coin: str) -> Any:
        return tuple(replace(rules, fee=Decimal(1), fee_rate=Decimal("0.1")) for rules in read(bodies, coin))

    monkeypatch.setattr(type(account.venue), "read_networks", with_a_tenth)
    assert await preflight(amount="100", max_fee="11") is None
    answer = await preflight(amount="100", max_fee="10.999999")
    assert (answer.status, answer.evidence["field"]) == (ResultStatus.REJECTED, "config.max_fee")
    assert "the fee is 11, the ceiling 10.999999" in answer.error_message
    estimate = await lane.executor("withdrawal_action").estimate_fee(work_order(amount="100"))
    assert (estimate.amount, estimate.on_top) == ("11", False)


@pytest.mark.parametrize("amount", ["12345678901", "12345678901.0000000000000000015"])
def test_an_amount_of_many_steps_is_measured_to_the_last_one(amount: str) -> None:
    rules = network_terms()
    asked: Any = SimpleNamespace(
        order=SimpleNamespace(amount=amount),
        account=SimpleNamespace(venue=SimpleNamespace(fee_rule=FeeRule.ON_TOP)),
        config=SimpleNamespace(max_fee=None),
    )
    if amount.isdigit():
        check_amount_rules(asked, rules)
        return
    with pytest.raises(InvalidInput) as refused:
        check_amount_rules(asked, rules)
    assert "12345678901.000000000000000001." in refused.value.fix


def network_terms() -> NetworkRules:
    step = Decimal("1e-18")
    return NetworkRules(
        network="ETH",
        withdraw_enabled=True,
        fee=Decimal(1),
        minimum=step,
        maximum=None,
        step=step,
        memo_required=False,
        memo_allowed=False,
        memo_pattern="",
        address_pattern="",
    )
