"""Which rows are ours, and which texts are transaction hashes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.cex.matching import amount_agrees, differences, same_address, transaction_hash
from qtg_dagster.lanes.cex.venue import FeeRule, Order, RowState, WithdrawalRow
from qtg_dagster.lanes.cex.venues.binance import VENUE, BinanceVenue

ORDER = Order("USDC", "ETH", "0x" + "Ab" * 20, None, "10", "c1")
ROW = WithdrawalRow(
    withdrawal_id="w1",
    client_id="c1",
    coin="USDC",
    network="ETH",
    address="0x" + "aB" * 20,
    memo=None,
    amount=Decimal(9),
    fee=Decimal(1),
    state=RowState.PENDING,
    raw_status="4",
    status_listed=True,
    tx_id=None,
    internal=False,
    applied_at=None,
    raw={},
)


class Undocumented(BinanceVenue):
    fee_rule = FeeRule.EITHER


def test_an_amount_that_includes_the_fee_is_the_same_withdrawal() -> None:
    assert differences(ORDER, ROW, VENUE) == ()


@given(st.decimals("0.01", 100, places=4), st.decimals("0.0001", 2, places=4), st.decimals("0.0001", 2, places=4))
def test_where_no_document_says_how_a_fee_is_counted_either_way_agrees(
    asked: Decimal, fee: Decimal, off: Decimal
) -> None:
    def agrees(amount: Decimal) -> bool:
        return amount_agrees(asked, replace(ROW, amount=amount, fee=fee), Undocumented())

    assert [agrees(asked), agrees(asked - fee), agrees(asked + fee)] == [True] * 3
    assert agrees(asked + off) is agrees(asked - off) is (off == fee)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("client_id", {"client_id": "c2"}),
        ("coin", {"coin": "USDT"}),
        ("network", {"network": "TRX"}),
        ("address", {"address": "0x" + "cd" * 20}),
        ("memo", {"memo": "7"}),
        ("amount", {"amount": Decimal("9.000001")}),
        ("amount", {"fee": Decimal(2)}),
    ],
)
def test_every_contradiction_is_named(field: str, changes: dict[str, Any]) -> None:
    assert differences(ORDER, replace(ROW, **changes), VENUE) == (field,)


def test_an_alias_of_the_network_is_the_network() -> None:
    assert differences(ORDER, replace(ROW, network="ERC20"), VENUE) == ()


def test_memos_are_text_and_not_numbers() -> None:
    order = replace(ORDER, memo="007")
    assert differences(order, replace(ROW, memo="7"), VENUE) == ("memo",)
    assert differences(order, replace(ROW, memo="007"), VENUE) == ()


@given(st.decimals(1, 10**6, places=6), st.decimals(0, 1, places=6))
def test_gross_and_net_agree_and_nothing_else(net: Decimal, fee: Decimal) -> None:
    row = replace(ROW, amount=net, fee=fee)
    assert amount_agrees(net + fee, row, VENUE)
    assert amount_agrees(net, row, VENUE)
    assert not amount_agrees(net + fee + Decimal("0.000001"), row, VENUE)


def test_amounts_of_many_digits_agree_to_the_last_one() -> None:
    row = replace(ROW, amount=Decimal("123456789012.123456789012345677"), fee=Decimal("0.000000000000000001"))
    assert amount_agrees(Decimal("123456789012.123456789012345678"), row, VENUE)
    assert not amount_agrees(Decimal("123456789012.123456789012345700"), row, VENUE)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " ",
        "Off-chain transfer 123",
        "Internal transfer 1234567890",
        "b6ae22b3aa844210a7041aee7589627c",
        "0x1234",
        "f3b1c0de-0000-4000-8000-000000000000",
        "0x" + "g" * 64,
        "a" * 63,
        "0x" + "a" * 65,
    ],
)
def test_these_are_no_hashes_of_an_evm_chain(text: str | None) -> None:
    assert transaction_hash("eip155:1", text) is None


@pytest.mark.parametrize("text", ["0x" + "Ab" * 32, "AB" * 32, "  0x" + "ab" * 32])
def test_evm_hashes_have_one_spelling(text: str) -> None:
    assert transaction_hash("eip155:1", text) == "0x" + "ab" * 32


def test_other_chains_have_their_own_shapes() -> None:
    assert transaction_hash("tron:mainnet", "AB" * 32) == "ab" * 32
    assert transaction_hash("bip122:000000000019d668", "Off-chain transfer 1") is None
    signature = "5" * 88
    assert transaction_hash("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", signature) == signature
    assert transaction_hash("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "0x" + "ab" * 32) is None


def test_case_matters_outside_hex() -> None:
    assert same_address("0xAB", "0xab")
    assert not same_address("TAbc", "Tabc")
    assert not same_address(None, "0xab")
