"""Telling a withdrawal by what it is: nothing that lacks ours is taken for ours, and doubt is a person's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from qtg_dagster.lanes.cex.fingerprint import Fit, Trace, fitting
from qtg_dagster.lanes.cex.venue import Order, RowState, Venue, WithdrawalRow
from qtg_dagster.lanes.cex.venues.kraken import VENUE as KRAKEN
from qtg_dagster.lanes.cex.venues.okx import VENUE as OKX

T0 = datetime(2026, 3, 29, 12, tzinfo=UTC)
ADDRESS = "0x" + "ab" * 20
ORDER = Order("ETH", "Ethereum", ADDRESS, None, "10", "c1", saved_as="the desk")
TRACE = Trace(ORDER, T0, T0 + timedelta(seconds=90), frozenset({"old"}))
OURS = WithdrawalRow(
    withdrawal_id="w1",
    client_id=None,
    coin="ETH",
    network="Ethereum",
    address=ADDRESS,
    memo=None,
    amount=Decimal(9),
    fee=Decimal(1),
    state=RowState.PENDING,
    raw_status="Pending",
    status_listed=True,
    tx_id=None,
    internal=False,
    applied_at=T0 + timedelta(seconds=30),
    raw={},
    saved_as="the desk",
)

#: What makes a row somebody else's for certain, one thing at a time.
FOREIGN = st.one_of(
    st.fixed_dictionaries({"coin": st.sampled_from(["XBT", "USDC", ""])}),
    st.fixed_dictionaries({"network": st.sampled_from(["Tron", "Arbitrum One", "Ethereum Classic"])}),
    st.fixed_dictionaries({"address": st.sampled_from(["0x" + "ac" * 20, ADDRESS + "0", "T" + "a" * 33])}),
    st.fixed_dictionaries({"memo": st.text(min_size=1, max_size=4)}),
    st.fixed_dictionaries({"saved_as": st.sampled_from(["the desk ", "another"])}),
    st.fixed_dictionaries({"client_id": st.sampled_from(["c2", "C1"])}),
    st.fixed_dictionaries({"withdrawal_id": st.just("old")}),
    st.decimals("0.000001", 8, places=6).map(lambda less: {"amount": Decimal(9) - less}),
    st.decimals("1.000001", 50, places=6).map(lambda more: {"amount": Decimal(9) + more}),
    st.floats(5.001, 10**6).map(lambda early: {"applied_at": T0 - timedelta(seconds=early)}),
    st.floats(150.001, 10**6).map(lambda late: {"applied_at": T0 + timedelta(seconds=late)}),
)
STATES = st.sampled_from(list(RowState))


def foreign_rows() -> Any:
    """Rows of others, each with an id of its own but for those that were there before."""

    def numbered(changes: list[tuple[dict[str, Any], RowState]]) -> list[WithdrawalRow]:
        return [
            replace(OURS, **({"withdrawal_id": f"f{number}", "state": state} | change))
            for number, (change, state) in enumerate(changes)
        ]

    return st.lists(st.tuples(FOREIGN, STATES), max_size=8).map(numbered)


@given(foreign_rows())
def test_no_rows_of_others_are_ours(rows: list[WithdrawalRow]) -> None:
    assert fitting(TRACE, rows, KRAKEN) == (Fit.ABSENT, ())


@given(foreign_rows(), st.integers(0, 8), st.floats(-4.9, 149.9), STATES)
def test_ours_is_found_among_any_others(rows: list[WithdrawalRow], at: int, after: float, state: RowState) -> None:
    ours = replace(OURS, applied_at=T0 + timedelta(seconds=after), state=state)
    fit, found = fitting(TRACE, [*rows[:at], ours, *rows[at:]], KRAKEN)
    assert found == (ours,)
    assert fit is (Fit.UNDONE if state in (RowState.FAILED, RowState.CANCELLED) else Fit.ONE)


@given(foreign_rows(), st.integers(2, 4), st.lists(STATES, min_size=4, max_size=4))
def test_two_that_fit_are_never_told_apart(rows: list[WithdrawalRow], count: int, states: list[RowState]) -> None:
    twins = [replace(OURS, withdrawal_id=f"w{number}", state=states[number]) for number in range(count)]
    fit, found = fitting(TRACE, [*twins, *rows], KRAKEN)
    assert (fit, len(found)) == (Fit.SEVERAL, count)


def test_one_row_seen_on_two_pages_is_one_row() -> None:
    assert fitting(TRACE, [OURS, OURS], KRAKEN)[0] is Fit.ONE


@pytest.mark.parametrize("hidden", ["applied_at", "network", "address"])
@pytest.mark.parametrize("state", list(RowState))
def test_a_row_that_hides_what_matters_is_not_enough(hidden: str, state: RowState) -> None:
    row = replace(OURS, **{hidden: None, "state": state})  # type: ignore[arg-type]
    assert fitting(TRACE, [row], KRAKEN) == (Fit.UNPROVEN, (row,))


@pytest.mark.parametrize(
    ("memo", "saved_as", "known_as", "fit"),
    [
        ("7", None, None, Fit.ONE),
        (None, "the desk", "the desk", Fit.ONE),
        (None, "the desk", None, Fit.UNPROVEN),
        (None, None, "the desk", Fit.UNPROVEN),
        ("07", None, None, Fit.ABSENT),
    ],
)
def test_a_memo_is_shown_or_stands_behind_a_name(
    memo: str | None, saved_as: str | None, known_as: str | None, fit: Fit
) -> None:
    trace = replace(TRACE, order=replace(ORDER, memo="7", saved_as=known_as))
    assert fitting(trace, [replace(OURS, memo=memo, saved_as=saved_as)], KRAKEN)[0] is fit


@given(st.floats(0, 10**7))
def test_where_no_end_is_known_a_late_row_is_still_ours(after: float) -> None:
    trace = replace(TRACE, last_moment=None)
    assert fitting(trace, [replace(OURS, applied_at=T0 + timedelta(seconds=after))], KRAKEN)[0] is Fit.ONE


@given(st.decimals("0.01", 100, places=4), st.decimals("0.0001", 2, places=4), st.sampled_from([KRAKEN, OKX]))
def test_an_amount_agrees_by_the_venues_fee_rule_alone(asked: Decimal, fee: Decimal, venue: Venue) -> None:
    assume(fee < asked)
    trace = replace(TRACE, order=replace(ORDER, amount=f"{asked:f}"))

    def fit(amount: Decimal) -> Fit:
        return fitting(trace, [replace(OURS, amount=amount, fee=fee)], venue)[0]

    assert fit(asked) is Fit.ONE
    assert fit(asked - fee) is (Fit.ONE if venue is KRAKEN else Fit.ABSENT)
    assert fit(asked + fee) is (Fit.ONE if venue is OKX else Fit.ABSENT)
