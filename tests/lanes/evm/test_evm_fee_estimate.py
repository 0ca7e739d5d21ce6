"""What a transfer would cost, said without taking a nonce or sending anything."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.executors.contract import EstimatesFees

_READS = {"eth_chainId", "eth_estimateGas", "eth_getBlockByNumber", "eth_maxPriorityFeePerGas"}


async def test_an_estimate_reads_the_chain_and_takes_no_nonce(desk: Any) -> None:
    assert isinstance(desk.transfer, EstimatesFees)
    fee = await desk.transfer.estimate_fee(desk.context())
    assert (fee.asset, fee.on_top) == ("ETH", True)
    assert set(desk.proxy.calls) <= _READS
    assert desk.ledger.held == {}


async def test_what_is_paid_in_the_end_is_not_more_than_the_estimate(desk: Any) -> None:
    fee = await desk.transfer.estimate_fee(desk.context())
    before = int(desk.faucet.call("eth_getBalance", desk.treasury, "latest"), 16)
    context, prepared = await desk.prepared()
    await desk.transfer.submit(context, prepared)
    await desk.observe_until(context, lambda result: "tx_hash" in result.provider_refs)
    paid = before - int(desk.faucet.call("eth_getBalance", desk.treasury, "latest"), 16)
    assert 0 < paid <= Decimal(fee.amount) * 10**18


async def test_a_transfer_that_would_revert_has_no_estimate_but_a_reason(desk: Any) -> None:
    with pytest.raises(Conflict, match="it would revert now"):
        await desk.transfer.estimate_fee(desk.context(amount="5000"))


async def test_gas_over_the_chain_s_ceiling_is_named(desk: Any) -> None:
    def expensive(answer: Any) -> Any:
        return {**answer, "result": hex(501 * 10**9)}

    desk.proxy.rewrite["eth_maxPriorityFeePerGas"] = expensive
    with pytest.raises(Conflict, match="more than 500 gwei"):
        await desk.transfer.estimate_fee(desk.context())
