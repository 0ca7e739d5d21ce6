"""Chain, account and asset names by CAIP, and prices that know their chain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.chains import AccountId, ChainId, GasPrice, evm_address
from qtg_dagster.domain.errors import InvalidInput

MAINNET, BASE = ChainId("eip155:1"), ChainId("eip155:8453")


@pytest.mark.parametrize(
    "text", ["eip155:1", "bip122:000000000019d6689c085ae165831e93", "solana:5eykt4", "cosmos:a-b_c"]
)
def test_caip_2_names_are_taken_apart_and_put_together(text: str) -> None:
    chain = ChainId(text)
    assert f"{chain.namespace}:{chain.reference}" == str(chain) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "eip155",
        "eip155:",
        ":1",
        "EIP155:1",
        "eip155:1:2",
        "eip155:1\n",
        "e:1",
        "eip155:" + "1" * 33,
        "eip155:\uff11",
    ],
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="CAIP-2"):
        ChainId(text)


def test_only_evm_chains_have_an_evm_id() -> None:
    assert BASE.evm_id == 8453
    for text in ("solana:5eykt4", "eip155:abc", "eip155:-1"):
        with pytest.raises(InvalidInput, match="not an EVM chain"):
            _ = ChainId(text).evm_id


def test_caip_10_names_are_read_from_the_right() -> None:
    account = AccountId.parse("eip155:1:0xAb16")
    assert (account.chain, account.address, str(account)) == (MAINNET, "0xAb16", "eip155:1:0xAb16")


@pytest.mark.parametrize("text", ["", "eip155:1", "eip155:1:", "0xab", "eip155:1:0x ab", "eip155:1:" + "a" * 129])
def test_what_is_no_account_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        AccountId.parse(text)


def test_a_gas_price_means_nothing_on_another_chain() -> None:
    with pytest.raises(TypeError, match="means nothing on"):
        GasPrice(MAINNET, 1) + GasPrice(BASE, 1)
    with pytest.raises(TypeError, match="means nothing on"):
        _ = GasPrice(MAINNET, 1) < GasPrice(BASE, 2)


def test_a_gas_price_is_not_negative() -> None:
    with pytest.raises(InvalidInput):
        GasPrice(MAINNET, -1)


@given(st.integers(0, 10**30), st.integers(0, 1000))
def test_a_bump_is_never_short_of_its_percentage(wei: int, percent: int) -> None:
    bumped = GasPrice(MAINNET, wei).scaled(percent).wei
    assert bumped * 100 >= wei * percent > (bumped - 1) * 100


@pytest.mark.parametrize(
    "text",
    ["", "0x", "0x" + "a" * 39, "0x" + "a" * 41, "0X" + "a" * 40, "0x" + "g" * 40, "a" * 42, "0x" + "a" * 40 + "\n"],
)
def test_what_is_no_evm_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        evm_address(text, field="accounts.desk.address")
    assert refused.value.field == "accounts.desk.address"


def test_an_evm_address_is_kept_in_lower_case() -> None:
    assert evm_address("0x" + "Ab" * 20) == "0x" + "ab" * 20
