"""Resolving UNKNOWN: found by client id, proven absent by the whole rule, or left to a person."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.lanes.cex import register
from qtg_dagster.lanes.cex.negative_proof import Absence, sign_in_wallet
from qtg_dagster.lanes.cex.venue import CoinBalance
from tests.lanes.cex.conftest import HISTORY

START = datetime(2026, 1, 1, tzinfo=UTC)


class Witness:
    """What the chain shows at the destination."""

    def __init__(self) -> None:
        self.amounts: tuple[str, ...] = ()

    async def arrived(self, **asked: Any) -> tuple[str, ...]:
        assert asked.keys() == {"chain", "asset", "destination", "since"}
        return self.amounts


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
async def action(venue: Any, clock: Any, make_inventory: Any, witness: Witness) -> AsyncIterator[Any]:
    """The action at a venue whose absence counts as proof."""
    executors = ExecutorRegistry()
    inventory = make_inventory(venue.base_url, absence_is_proof=True)
    cex = register(executors, inventory, clock=clock, arrivals=witness, timeout_seconds=0.6)
    yield executors.resolve("exec.cex.withdrawal_action")
    await cex.close()


@pytest.fixture
async def lost(action: Any, venue: Any, work_order: Any) -> Any:
    """A prepared action whose request was lost before the venue took it."""
    prepared = await action.prepare(work_order())
    venue.on_submit(executes=False, no_bytes=True)
    answer = await action.submit(work_order(), prepared)
    assert answer.status is ResultStatus.UNKNOWN
    venue.behave()
    return prepared


@pytest.fixture
def recover(action: Any, lost: Any, work_order: Any, clock: Any) -> Any:
    """Recover as the engine does, carrying refs from look to look; gives the last answer."""
    refs: dict[str, Any] = {}

    async def looks(*pauses: float) -> Any:
        answer = None
        for pause in pauses:
            clock.advance(pause)
            answer = await action.recover(work_order({"prepared": lost, "node_refs": dict(refs)}))
            refs.update(answer.provider_refs)
        return answer

    return looks


async def test_the_whole_proof_shows_that_it_was_not_executed(recover: Any) -> None:
    answer = await recover(130, 300, 301)
    assert (answer.status, answer.error_code) == (ResultStatus.FAILED, "NOT_EXECUTED")
    assert answer.evidence["lookups"] == 3


@pytest.mark.parametrize(
    "pauses",
    [
        (0,),
        (10, 10, 10, 10, 10),  # all before the request has surely expired
        (130, 1, 1, 1, 1),  # many, and not for long
        (130, 601),  # for long, and not many
        (30, 30, 30, 300, 240),  # enough in all, and not after the expiry
    ],
)
async def test_less_than_the_whole_proof_is_unknown(pauses: tuple[float, ...], recover: Any) -> None:
    answer = await recover(*pauses)
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD_YET")
    assert answer.retry_after_seconds > 0


async def test_a_row_that_turns_up_late_is_found(
    recover: Any, action: Any, venue: Any, work_order: Any, lost: Any
) -> None:
    await recover(130, 300)
    again = work_order({"idempotency_key": "n1:1"})
    params = {"withdrawOrderId": lost.provider_refs["withdrawal_client_id"], "coin": "USDC", "network": "ETH"}
    venue._withdraw({**params, "address": again.node_config["destination"], "amount": "12.5"})
    answer = await recover(301)
    assert answer.status is ResultStatus.COMPLETED
    assert answer.provider_refs["exchange_withdrawal_id"] == venue.withdrawals[0]["id"]


@pytest.mark.parametrize("reply", [{"status": 503, "body": b"{}"}, {"status": 200, "body": b"<html>"}])
async def test_a_failing_look_up_does_not_count(reply: dict[str, Any], recover: Any, venue: Any, response: Any) -> None:
    venue.on_history(raw=response(**reply))
    answer = await recover(130, 300, 301, 300)
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "LOOKUP_FAILED")
    venue.behave()
    answer = await recover(1)
    assert answer.evidence["lookups"] == 1


async def test_a_wallet_that_holds_less_is_no_proof(recover: Any, venue: Any) -> None:
    venue.balances[0]["free"] = "987.5"
    answer = await recover(130, 300, 301)
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD")
    assert "holds less" in answer.error_message


async def test_a_deposit_cannot_hide_what_left(recover: Any, venue: Any) -> None:
    venue.deposits = [{"id": "d1", "coin": "USDC", "amount": "12.5", "status": 1, "network": "ETH"}]
    answer = await recover(130, 300, 301)
    assert answer.status is ResultStatus.UNKNOWN


async def test_funds_that_came_from_elsewhere_cannot_hide_what_left(recover: Any, venue: Any) -> None:
    """12.5 left, and 20 came from another wallet of the account, which no deposit tells of."""
    venue.balances[0]["free"] = "1007.5"
    answer = await recover(130, 300, 301)
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD")
    assert "may hide what left" in answer.error_message


async def test_a_deposit_since_explains_that_the_wallet_holds_more(recover: Any, venue: Any, clock: Any) -> None:
    at = int(clock.now().timestamp() * 1000) + 1000
    row = {"id": "d1", "coin": "USDC", "amount": "12.5", "status": 1, "network": "ETH", "insertTime": at}
    venue.deposits, venue.balances[0]["free"] = [row], "1012.5"
    answer = await recover(130, 300, 301)
    assert (answer.status, answer.error_code) == (ResultStatus.FAILED, "NOT_EXECUTED")


async def test_funds_on_their_way_out_are_no_proof(recover: Any, venue: Any) -> None:
    venue.balances[0]["withdrawing"] = "12.5"
    answer = await recover(130, 300, 301)
    assert answer.status is ResultStatus.UNKNOWN


async def test_an_arrival_on_the_chain_is_no_proof(recover: Any, witness: Witness) -> None:
    witness.amounts = ("11.5",)
    answer = await recover(130, 300, 301)
    assert answer.status is ResultStatus.UNKNOWN
    assert "received" in answer.error_message


async def test_without_the_policy_it_stays_with_a_person(lane: Any, venue: Any, work_order: Any, clock: Any) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    refs: dict[str, Any] = {}
    for pause in (130, 300, 301):
        clock.advance(pause)
        answer = await action.recover(work_order({"prepared": prepared, "node_refs": refs}))
        refs |= answer.provider_refs
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD")
    assert "absence_is_proof" in answer.evidence["operator"]


@pytest.mark.parametrize(
    "change",
    [{"address": "0x" + "cd" * 20}, {"coin": "USDT"}, {"network": "BSC"}, {"amount": "3"}, {"addressTag": "9"}],
)
async def test_a_row_of_our_id_that_differs_is_for_a_person(
    change: dict[str, Any], lane: Any, venue: Any, work_order: Any
) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    await action.submit(work_order(), prepared)
    venue.withdrawals[0] |= change
    answer = await action.recover(work_order({"prepared": prepared}))
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "OTHER_ON_RECORD")


async def test_two_rows_of_our_id_are_for_a_person(lane: Any, venue: Any, work_order: Any) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    await action.submit(work_order(), prepared)
    venue.withdrawals.append({**venue.withdrawals[0], "id": "w2"})
    answer = await action.recover(work_order({"prepared": prepared}))
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "SEVERAL_ON_RECORD")


async def test_an_attempt_that_was_never_prepared_is_for_a_person(lane: Any, work_order: Any) -> None:
    answer = await lane.executor("withdrawal_action").recover(work_order())
    assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "NOT_PREPARED")


@given(st.lists(st.integers(0, 2000), max_size=12))
def test_absence_is_long_enough_only_by_the_rule(pauses: list[int]) -> None:
    countable_from, now, counted = START + timedelta(seconds=500), START, []
    absence = Absence("c1")
    for pause in pauses:
        now += timedelta(seconds=pause)
        absence = Absence.from_refs(absence.to_refs(), "c1").seen_again(now, countable_from)
        if now > countable_from:
            counted.append(now)
    long_enough = len(counted) >= 3 and counted[-1] - counted[0] >= timedelta(minutes=10)
    assert absence.is_long_enough == long_enough


def test_another_attempts_count_is_not_inherited() -> None:
    absence = Absence("c1").seen_again(START, START - timedelta(seconds=1))
    assert Absence.from_refs(absence.to_refs(), "c2") == Absence("c2")


@given(st.decimals(0, 1000, places=6), st.decimals("0.000001", 1000, places=6))
def test_a_wallet_that_holds_less_or_more_is_never_untouched(held: Decimal, left: Decimal) -> None:
    more, less = (CoinBalance("USDC", free, Decimal(0), Decimal(0)) for free in (held + left, held))
    assert sign_in_wallet(more, more, ()) is None
    assert "less" in str(sign_in_wallet(more, less, ()))
    assert "more" in str(sign_in_wallet(less, more, ()))


@given(st.decimals(0, 1000, places=6), st.decimals("0.000001", 1000, places=6))
def test_funds_that_are_locked_may_be_on_their_way_out(held: Decimal, moved: Decimal) -> None:
    before = CoinBalance("USDC", held + moved, Decimal(0), Decimal(0))
    assert sign_in_wallet(before, CoinBalance("USDC", held, moved, Decimal(0)), ()) is not None


@pytest.mark.parametrize("other", [{"withdrawOrderId": "another"}, {}])
async def test_a_look_that_tells_of_others_alone_counts_towards_no_proof(
    other: dict[str, str], recover: Any, venue: Any, response: Any
) -> None:
    """The venue did not look for our id, or does not show it: ours may be among what it left out."""
    row = {"id": "w9", "coin": "USDC", "network": "ETH", "amount": "1", "status": 6, **other}
    venue.on(HISTORY, raw=response(200, json.dumps([row]).encode()))
    for pause in (130, 300, 301, 3600):
        looked = await recover(pause)
        assert (looked.status, looked.error_code, looked.provider_refs) == (ResultStatus.UNKNOWN, "LOOKUP_FAILED", {})
    assert "NOT_WHAT_WAS_ASKED" in looked.error_message
