"""Money keeps its value through text, and never mixes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.amounts import Amount, Asset, Rounding, plain_decimal
from qtg_dagster.domain.errors import InvalidInput

USDC, ETH, WHOLE = Asset("USDC", 6), Asset("ETH", 18), Asset("POINTS", 0)
MAX = 2**256 - 1

assets = st.builds(Asset, st.sampled_from(["USDC", "ETH", "A.b-9"]), st.integers(0, 36))
base_units = st.integers(0, MAX)


@given(assets, base_units)
def test_text_brings_every_amount_back(asset: Asset, units: int) -> None:
    amount = Amount(asset, units)
    assert Amount.parse(asset, amount.to_text()) == amount


@given(assets, base_units)
def test_text_is_canonical(asset: Asset, units: int) -> None:
    text = Amount(asset, units).to_text()
    whole, _, fraction = text.partition(".")
    assert whole == "0" or not whole.startswith("0")
    assert not fraction.endswith("0")
    assert set(text) <= set("0123456789.")
    assert not text.endswith(".")


@given(assets, st.integers(-MAX, MAX))
def test_decimals_are_exact_both_ways(asset: Asset, units: int) -> None:
    amount = Amount(asset, units)
    for rounding in Rounding:
        assert Amount.from_decimal(asset, amount.to_decimal(), rounding) == amount


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1e3",
        "1E-7",
        "+1",
        "-1",
        " 1",
        "1 ",
        "1\n",
        "1,000",
        "1_000",
        "1.",
        ".5",
        "00",
        "01",
        "1.2.3",
        "0x10",
        "NaN",
        "nan",
        "Infinity",
        "inf",
        "-0",
        "--1",
        "\uff11\uff12",
        "\u0661\u0662",
        "1\u066b5",
        "²",
        "1\u200b",
        "1\x00",
        "½",
    ],
)
def test_anything_but_a_plain_decimal_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a plain decimal") as refused:
        Amount.parse(USDC, text, field="parameters.amount")
    assert refused.value.field == "parameters.amount"


@pytest.mark.parametrize("value", [1, 1.5, Decimal("1E-7"), None, True, b"1"])
def test_only_text_is_parsed(value: Any) -> None:
    with pytest.raises(InvalidInput):
        Amount.parse(USDC, value)


def test_digits_that_the_asset_does_not_have_are_refused_but_zeros_are_not() -> None:
    with pytest.raises(InvalidInput, match="more decimals than USDC"):
        Amount.parse(USDC, "0.0000001")
    assert Amount.parse(USDC, "0.1000000000").base_units == 100_000
    assert Amount.parse(WHOLE, "7.000").base_units == 7


def test_huge_numbers_are_refused_and_the_largest_is_not() -> None:
    assert Amount.parse(WHOLE, str(MAX)).base_units == MAX
    for text in (str(MAX + 1), "9" * 79, "1" + "0" * 10_000):
        with pytest.raises(InvalidInput, match="256 bits"):
            Amount.parse(WHOLE, text)


@pytest.mark.parametrize("units", [1.0, True, "1", Decimal(1)])
def test_base_units_are_whole_numbers(units: Any) -> None:
    with pytest.raises(TypeError, match="whole number"):
        Amount(USDC, units)


@pytest.mark.parametrize("name", ["USDC/E", "", "x" * 33, "US DC", "USDC\n"])
def test_an_asset_has_a_symbol(name: str) -> None:
    with pytest.raises(InvalidInput):
        Asset(name, 6)


@pytest.mark.parametrize("decimals", [-1, 37])
def test_an_asset_has_sensible_decimals(decimals: int) -> None:
    with pytest.raises(InvalidInput):
        Asset("USDC", decimals)


@pytest.mark.parametrize(
    "combine", [operator.add, operator.sub, operator.lt, operator.le, operator.gt, operator.ge, Amount.round_to_step]
)
@pytest.mark.parametrize("other", [ETH, Asset("USDC", 18), Asset("USDT", 6)])
def test_two_assets_never_meet(combine: Callable[[Amount, Amount], object], other: Asset) -> None:
    with pytest.raises(TypeError, match="cannot combine"):
        combine(Amount(USDC, 5), Amount(other, 5))


def test_amounts_of_two_assets_are_not_equal() -> None:
    assert Amount(USDC, 5) != Amount(ETH, 5)


small = st.integers(-(10**30), 10**30)


@given(small, small)
def test_sums_are_those_of_base_units(left: int, right: int) -> None:
    a, b = Amount(USDC, left), Amount(USDC, right)
    assert (a + b).base_units == left + right
    assert (a - b).base_units == left - right
    assert (a < b, a <= b, a > b, a >= b) == (left < right, left <= right, left > right, left >= right)


def test_a_sum_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInput):
        Amount(USDC, MAX) + Amount(USDC, 1)


@given(st.integers(0, 2**255), st.integers(1, 2**128))
def test_a_step_divides_what_was_rounded_to_it(units: int, step: int) -> None:
    amount, grid = Amount(ETH, units), Amount(ETH, step)
    down = amount.round_to_step(grid, Rounding.DOWN)
    up = amount.round_to_step(grid, Rounding.UP)
    near = amount.round_to_step(grid, Rounding.HALF_EVEN)
    assert {a.base_units % step for a in (down, up, near)} == {0}
    assert down <= amount <= up
    assert up.base_units - down.base_units == (0 if units % step == 0 else step)
    assert near in (down, up)
    assert abs(near.base_units - units) * 2 <= step


@pytest.mark.parametrize("step", [0, -1])
def test_a_step_is_positive(step: int) -> None:
    with pytest.raises(InvalidInput, match="not positive"):
        Amount(USDC, 5).round_to_step(Amount(USDC, step))


def test_every_division_names_its_rounding() -> None:
    third = Decimal(1) / 3
    assert Amount.from_decimal(USDC, third, Rounding.DOWN).to_text() == "0.333333"
    assert Amount.from_decimal(USDC, third, Rounding.UP).to_text() == "0.333334"
    assert Amount.from_decimal(USDC, Decimal("0.0000005"), Rounding.HALF_EVEN).to_text() == "0"
    assert Amount.from_decimal(USDC, Decimal("0." + "9" * 200), Rounding.DOWN).to_text() == "0.999999"


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "-Infinity", "1E+90", "1E+999999"])
def test_a_decimal_that_is_no_amount_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput):
        Amount.from_decimal(USDC, Decimal(value), Rounding.DOWN)


def test_amounts_print_with_their_asset() -> None:
    assert str(Amount(USDC, 12_500_000)) == "12.5 USDC"
    assert str(Amount(USDC, -1)) == "-0.000001 USDC"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1E-7", "0.0000001"),
        ("1E+3", "1000"),
        ("0", "0"),
        ("-0", "0"),
        ("-0.00", "0"),
        ("0E-9", "0"),
        ("1.500", "1.5"),
        ("100", "100"),
        ("100.000", "100"),
        ("0.00000012", "0.00000012"),
    ],
)
def test_decimals_are_spelled_plainly(value: str, text: str) -> None:
    assert plain_decimal(Decimal(value)) == text


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", "-0.1"])
def test_what_is_no_amount_has_no_plain_spelling(value: str) -> None:
    with pytest.raises(InvalidInput):
        plain_decimal(Decimal(value))


@given(st.decimals(min_value=0, allow_nan=False, allow_infinity=False, places=12))
def test_a_plain_spelling_keeps_the_value(value: Decimal) -> None:
    text = plain_decimal(value)
    assert Decimal(text) == value
    assert Amount.parse(ETH, text).to_decimal() == value if value < Decimal(10) ** 59 else True
