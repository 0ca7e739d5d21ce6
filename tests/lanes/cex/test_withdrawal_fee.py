"""What a withdrawal would cost, said without asking for one."""

from __future__ import annotations

from typing import Any

import pytest

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.contract import EstimatesFees
from qtg_dagster.lanes.cex.reply import LookupFailed


async def test_the_venue_s_listed_fee_is_told_and_nothing_is_asked_for(venue: Any, lane: Any, work_order: Any) -> None:
    venue.networks[0]["withdrawFee"] = "0.75"
    action = lane.executor("withdrawal_action")
    assert isinstance(action, EstimatesFees)
    fee = await action.estimate_fee(work_order())
    assert (fee.asset, fee.amount, fee.on_top) == ("USDC", "0.75", False)
    assert "listed by venue_a for USDC on ETH" in fee.how
    assert {method for method, _, _ in venue.requests} == {"GET"}


async def test_a_venue_that_does_not_answer_gives_a_reason_and_no_fee(venue: Any, lane: Any, work_order: Any) -> None:
    venue.on("/venue_a/sapi/v1/capital/config/getall", no_bytes=True)
    with pytest.raises(LookupFailed, match="NO_ANSWER"):
        await lane.executor("withdrawal_action").estimate_fee(work_order())


async def test_a_network_that_the_venue_does_not_list_has_no_fee(lane: Any, work_order: Any) -> None:
    with pytest.raises(InvalidInput, match="no network 'FOO'"):
        await lane.executor("withdrawal_action").estimate_fee(work_order(chain="eip155:2"))
