"""What is warned of, and what an approver is shown in any case."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from qtg_dagster.domain.breakers import Breaker
from qtg_dagster.domain.contract import HealthState
from qtg_dagster.domain.review import Balance, FeeEstimate, FromNode, LastHealth, NotKnown, Review, reviewed_nodes
from qtg_dagster.domain.review_warnings import warnings
from qtg_dagster.domain.signer_identity import SignerIdentity
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.domain.velocity import VelocityLimit
from qtg_dagster.treasury.review_page import sections
from tests.treasury.review_cases import (
    CHAIN,
    NOON,
    OUR_ETH,
    OUR_USDC,
    OURS,
    SIGNER,
    THEIRS,
    VENUE_USDC,
    request_of,
    review_of,
    sample_plan,
)

SILENT = NotKnown("no answer within 4 s, twice")


def shown(review: Review, title: str) -> list[tuple[str, ...]]:
    return next(list(section.rows) for section in sections(review) if section.title == title)


def limit(daily: int, spent: int) -> VelocityLimit:
    return VelocityLimit("USDC", 6, daily * 10**6, spent * 10**6, "olivia", "quiet")


def breaker(scope: str) -> Breaker:
    return Breaker(1, scope, NOON, "grace", "maintenance", 0, 0)


def test_a_movement_that_nothing_speaks_against_has_no_warning() -> None:
    assert warnings(review_of()) == ()
    assert shown(review_of(), "warnings") == [("none",)]


def test_warnings_come_before_all_else() -> None:
    assert sections(review_of())[0].title == "warnings"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"velocity": {"USDC": limit(250, 100)}}, "it takes 200 USDC, and 150 USDC is left of today's limit of 250"),
        ({"velocity": SILENT}, "velocity limits are not known: no answer"),
        ({"breakers": [breaker("lane:evm")]}, "the breaker on lane:evm holds back receive, transfer"),
        ({"breakers": SILENT}, "breakers that would hold it back are not known"),
        ({"scopes": SILENT}, "breakers that would hold it back are not known"),
        ({"health": SILENT}, "the health of executors and signers is not known"),
        ({"signers": SILENT}, f"the identity of {SIGNER} is not known"),
        ({"signers": {}}, f"{SIGNER}: nobody has enrolled it"),
        ({"signers": {SIGNER: SignerIdentity(SIGNER, OURS, THEIRS, True)}}, f"{SIGNER}: says it is {THEIRS}"),
        ({"signers": {SIGNER: SignerIdentity(SIGNER, None, OURS, True)}}, f"{SIGNER}: nobody has enrolled it"),
        ({"fees": {"transfer": SILENT}}, "transfer: the fee is not known: no answer"),
        (
            {"fees": {"transfer": FeeEstimate(asset="ETH", amount="0.51", how="gas")}},
            "transfer: a fee of 0.51 ETH is over the template's max_fee of 0.5",
        ),
    ],
)
def test_each_of_these_is_warned_of_once_and_hides_nothing(changes: dict[str, Any], said: str) -> None:
    review = review_of(**changes)
    [text] = warnings(review)
    assert said in text
    assert [section.title for section in sections(review)] == [section.title for section in sections(review_of())]
    assert len(shown(review, "plan")) == 3


@pytest.mark.parametrize("state", [HealthState.DOWN, HealthState.UNKNOWN, HealthState.DEGRADED])
def test_what_is_not_healthy_is_named(state: HealthState) -> None:
    review = review_of()
    assert not isinstance(review.health, NotKnown)
    seen = {**review.health, "exec.evm.transfer": LastHealth("exec.evm.transfer", state, "no route", NOON)}
    [text] = warnings(replace(review, health=seen))
    assert text.startswith(f"exec.evm.transfer is {state.value}: no route, checked 2026-11-30")


def test_a_limit_that_leaves_exactly_enough_is_no_warning() -> None:
    assert warnings(review_of(velocity={"USDC": limit(300, 100)})) == ()


def test_an_amount_that_only_an_earlier_node_will_know_is_said_to_come_on_top() -> None:
    nodes = sample_plan().model_dump(mode="json")["nodes"]
    nodes[2]["config"]["amount"] = "$ref:receive.received_amount"
    review = review_of(request_of(sample_plan(nodes=nodes)), velocity={"USDC": limit(100, 0)})
    assert warnings(review) == ()
    [row] = shown(review, "daily limits")
    assert row == ("USDC", "100 and what transfer will move", "100 USDC", "100 USDC", "✓")
    assert "amount = received_amount of receive, once that is done" in shown(review, "plan")[2][-1]


def test_a_node_that_has_acted_takes_nothing_more() -> None:
    request = request_of(sample_plan())
    done = {**request.node_states, "withdraw": NodeState.COMPLETED}
    review = review_of(replace(request, request_state=RequestState.EXECUTING, node_states=done))
    assert review.taken() == {"USDC": Decimal(100)}
    assert VENUE_USDC not in review.needed()


def test_what_earlier_nodes_bring_need_not_be_there_yet_but_gas_must() -> None:
    assert review_of().needed() == {VENUE_USDC: Decimal(100), OUR_ETH: Decimal("0.002")}
    no_gas = {OUR_USDC: Balance("0", NOON, live=True), OUR_ETH: Balance("0.001", NOON, live=True)}
    balances = {**review_of().balances, CHAIN: no_gas}
    [text] = warnings(review_of(balances=balances))
    assert f"ETH of {OURS} at {CHAIN}: 0.001 is free and 0.002 is needed: it is not covered" in text


def test_a_fee_beside_the_amount_must_be_covered_too() -> None:
    fee = FeeEstimate(asset="USDC", amount="0.4", how="listed")
    balances = {**review_of().balances, "venue_a": {VENUE_USDC: Balance("100.3", NOON, live=True)}}
    [text] = warnings(review_of(balances=balances, fees={"withdraw": fee}))
    assert "100.3 is free and 100.4 is needed" in text


def test_a_balance_that_is_old_or_missing_is_said_to_be_so() -> None:
    old = {VENUE_USDC: Balance("150", NOON, live=False, problem=f"what it is now is {SILENT}")}
    [text] = warnings(review_of(balances={**review_of().balances, "venue_a": old}))
    assert "is of 2026-11-30 12:00:00 UTC: what it is now is not known" in text
    [text] = warnings(review_of(balances={**review_of().balances, "venue_a": SILENT}))
    assert text == f"balances at venue_a are {SILENT}"
    [text] = warnings(review_of(balances={**review_of().balances, "venue_a": {}}))
    assert "venue_a reports none" in text


def test_a_changed_plan_is_the_first_warning() -> None:
    request = request_of(sample_plan())
    compiled = warnings(review_of(replace(request, compiled_plan_hash="0" * 64, expired=True)))
    assert "it cannot be approved" in compiled[0]
    assert "window has closed" in compiled[1]
    tightened = review_of(replace(request, approval_digest="0" * 64))
    assert "limits, timeouts or approvers" in warnings(tightened)[0]
    assert tightened.unchanged == (True, False)


def test_a_decided_movement_is_said_to_be_decided() -> None:
    request = replace(request_of(sample_plan()), request_state=RequestState.REJECTED)
    assert "the movement is REJECTED: there is nothing to approve" in warnings(review_of(request))


def test_the_template_s_limits_are_judged_and_ticked() -> None:
    controls = {"hard_cap": "99", "destination_allowlist": [OURS]}
    review = review_of(request_of(sample_plan(risk_controls=controls)))
    assert warnings(review) == (
        "withdraw: 100 is over the template's hard cap of 99",
        "transfer: 100 is over the template's hard cap of 99",
        f"transfer: {THEIRS} is not on the template's allowlist",
    )
    assert shown(review, "destinations") == [
        ("withdraw", OURS, "✓"),
        ("transfer", THEIRS, "✗ not on the allowlist"),
    ]


def test_nodes_stand_in_their_order_with_their_values_filled_in() -> None:
    first, second, third = reviewed_nodes(request_of(sample_plan()))
    assert [first.key, second.key, third.key] == ["withdraw", "receive", "transfer"]
    assert first.config["amount"] == "100"
    assert second.config["tx_hash"] == FromNode("withdraw", "tx_hash")
    assert (third.executor, third.signer, third.waits_for) == ("exec.evm.transfer", SIGNER, ("receive",))


def test_a_reference_without_a_value_is_warned_of() -> None:
    nodes = sample_plan().model_dump(mode="json")["nodes"]
    nodes[0]["config"]["memo"] = "$intent:memo"
    assert "withdraw: memo: $intent:memo has no value; the node cannot run" in warnings(
        review_of(request_of(sample_plan(nodes=nodes)))
    )


def test_who_has_approved_and_who_is_missing_is_shown() -> None:
    approval = {"required": 2, "approvers": ["grace", "olivia", "tim"]}
    request = replace(request_of(sample_plan(approval=approval)), approved_by=("grace",))
    told = dict(shown(review_of(request), "movement"))
    assert told["asked for by"] == "ada: top up"
    assert told["approved by"] == "grace"
    assert told["missing"] == "1 of 2; may approve: grace, olivia, tim"
    assert told["window"] == "open until 2026-11-30 12:00:00 UTC"
    assert told["compiled plan hash"] == f"{request.compiled_plan_hash} ✓ as stored"


def test_what_people_wrote_cannot_draw_lines_of_its_own() -> None:
    told = dict(shown(review_of(reason="rent\n  hard cap  none\x1b[2K\u202e"), "movement"))
    assert told["asked for by"] == "ada: rent\\u000a  hard cap  none\\u001b[2K\\u202e"


@pytest.mark.parametrize("amount", ["-5", "0", "1e3", "all of it"])
def test_an_amount_that_is_none_is_warned_of_and_counts_for_nothing(amount: str) -> None:
    nodes = sample_plan().model_dump(mode="json")["nodes"]
    nodes[0]["config"]["amount"] = amount
    review = review_of(request_of(sample_plan(nodes=nodes)))
    assert f"withdraw: {amount!r} is no amount above zero; the node cannot run" in warnings(review)
    assert review.taken() == {"USDC": Decimal(100)}


def test_a_ceiling_that_cannot_be_read_is_warned_of() -> None:
    controls = {"hard_cap": "a lot", "max_fee": "little", "destination_allowlist": [OURS, THEIRS]}
    review = review_of(request_of(sample_plan(risk_controls=controls)))
    assert [text.partition(" is no amount")[0] for text in warnings(review)] == [
        "the template's hard_cap of 'a lot'",
        "the template's max_fee of 'little'",
    ]


def test_an_estimate_that_is_no_amount_cannot_be_made() -> None:
    with pytest.raises(ValidationError):
        FeeEstimate(asset="ETH", amount="1e-3", how="guess")
