"""Fees stay under their ceiling, and a replacement is dear enough for every node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.chains import ChainId, GasPrice
from qtg_dagster.lanes.evm.fees import Fees, gas_limit, offer, replacement

CHAIN = ChainId("eip155:1")
wei = st.integers(min_value=0, max_value=10**13)


@given(base=wei, tip=wei, ceiling=st.integers(min_value=1, max_value=10_000))
def test_an_offer_is_taken_by_this_block_and_never_over_the_ceiling(base: int, tip: int, ceiling: int) -> None:
    fees = offer(CHAIN, base_fee=base, tip=tip, ceiling_gwei=ceiling)
    if fees is None:
        assert base + tip > ceiling * 10**9
    else:
        assert base + tip <= fees.max_fee.wei <= ceiling * 10**9
        assert fees.tip.wei == tip


@given(old_tip=wei, old_extra=wei, new_tip=wei, new_extra=wei)
def test_a_replacement_raises_both_fees_by_an_eighth(
    old_tip: int, old_extra: int, new_tip: int, new_extra: int
) -> None:
    def fees(tip: int, extra: int) -> Fees:
        return Fees(max_fee=GasPrice(CHAIN, tip + extra), tip=GasPrice(CHAIN, tip))

    old, market = fees(old_tip, old_extra), fees(new_tip, new_extra)
    new = replacement(old, market)
    assert new.tip.wei * 1000 >= old.tip.wei * 1125
    assert new.max_fee.wei * 1000 >= old.max_fee.wei * 1125
    assert new.max_fee.wei >= max(market.max_fee.wei, new.tip.wei)
    assert new.tip.wei >= market.tip.wei


@given(st.integers(min_value=1, max_value=30_000_000))
def test_a_gas_limit_leaves_a_fifth_to_spare(estimate: int) -> None:
    assert gas_limit(estimate) * 100 >= estimate * 120
