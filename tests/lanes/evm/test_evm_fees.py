"""Fees stay under their ceiling and above what a block asks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.chains import ChainId
from qtg_dagster.lanes.evm.fees import gas_limit, offer

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


@given(st.integers(min_value=1, max_value=30_000_000))
def test_a_gas_limit_leaves_a_fifth_to_spare(estimate: int) -> None:
    assert gas_limit(estimate) * 100 >= estimate * 120
