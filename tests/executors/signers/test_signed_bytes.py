"""Signed bytes count only when they are exactly the transaction that was to be signed, by the expected key."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import rlp
from eth_account import Account
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.executors.signers.encoding import CURVE_ORDER, assemble, check_signed, recover_address, signing_digest
from qtg_dagster.executors.signers.reading import ReadTransaction, read_payload

KEY = "0x" + "4c" * 32
ADDRESS = str(Account.from_key(KEY).address).lower()
OTHERS_KEY = "0x" + "7d" * 32


@pytest.fixture
def read(signing_desk: Any) -> ReadTransaction:
    return read_payload(signing_desk.request().payload)


def signed_by(key: str, transaction: dict[str, Any]) -> str:
    return "0x" + bytes(Account.sign_transaction(transaction, key).raw_transaction).hex()


def parts_of(signed: str) -> list[Any]:
    return list(rlp.decode(bytes.fromhex(signed[4:])))


def test_the_digest_and_the_bytes_are_those_of_the_reference_library(read: ReadTransaction) -> None:
    reference = Account.sign_transaction(read.to_sign(), KEY)
    assert assemble(read, reference.v, reference.r, reference.s) == "0x" + bytes(reference.raw_transaction).hex()
    assert recover_address(signing_digest(read), reference.v, reference.r, reference.s) == ADDRESS
    assert check_signed(signed_by(KEY, read.to_sign()), read, ADDRESS) == "0x" + bytes(reference.hash).hex()


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("to", "0x" + "99" * 20, "to is"),
        ("nonce", 8, "nonce is"),
        ("chainId", 10, "chain_id is"),
        ("value", 1, "value is"),
        ("data", "0xa9059cbb", "data is"),
        ("gas", 70_001, "gas is"),
        ("maxFeePerGas", 2_000_000_001, "max_fee_per_gas is"),
        ("maxPriorityFeePerGas", 1, "max_priority_fee_per_gas is"),
        ("accessList", [{"address": "0x" + "99" * 20, "storageKeys": []}], "access_list is"),
    ],
)
def test_a_changed_field_is_named(read: ReadTransaction, field: str, value: Any, named: str) -> None:
    with pytest.raises(SigningRefused, match=named):
        check_signed(signed_by(KEY, read.to_sign() | {field: value}), read, ADDRESS)


def test_another_key_is_named(read: ReadTransaction) -> None:
    with pytest.raises(SigningRefused, match=f"not by {ADDRESS}"):
        check_signed(signed_by(OTHERS_KEY, read.to_sign()), read, ADDRESS)


def test_a_legacy_transaction_is_refused(read: ReadTransaction) -> None:
    legacy = {"nonce": 7, "to": read.to_sign()["to"], "value": 0, "data": read.data, "gas": 70_000, "gasPrice": 10**9}
    with pytest.raises(SigningRefused, match="type 2"):
        check_signed(signed_by(KEY, legacy | {"chainId": 31337}), read, ADDRESS)


def test_the_high_form_of_a_signature_is_refused(read: ReadTransaction) -> None:
    reference = Account.sign_transaction(read.to_sign(), KEY)
    high = assemble(read, 1 - reference.v, reference.r, CURVE_ORDER - reference.s)
    with pytest.raises(SigningRefused, match="low s"):
        check_signed(high, read, ADDRESS)


@pytest.mark.parametrize("strange", ["", "0x", "02", "0xzz", "0x02", "0x02c0", "0x02ff", "0x" + "02" * 1025])
def test_what_is_no_transaction_is_refused(read: ReadTransaction, strange: str) -> None:
    with pytest.raises(SigningRefused, match="the signed bytes"):
        check_signed(strange, read, ADDRESS)


def test_lists_within_lists_are_refused(read: ReadTransaction) -> None:
    nested = b"\xc0"  # an empty list
    while len(nested) < 1020:
        size = len(nested).to_bytes(2, "big").lstrip(b"\0")
        nested = (bytes([0xC0 + len(nested)]) if len(nested) < 56 else bytes([0xF7 + len(size)]) + size) + nested
    for limit in (1000, 100_000):  # Python's own recursion limit, and the one that a library sets
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(limit)
        try:
            with pytest.raises(SigningRefused, match="the signed bytes"):
                check_signed("0x02" + nested.hex(), read, ADDRESS)
        finally:
            sys.setrecursionlimit(before)


def test_leading_zeros_and_trailing_bytes_are_refused(read: ReadTransaction) -> None:
    honest = signed_by(KEY, read.to_sign())
    parts = parts_of(honest)
    padded = "0x02" + rlp.encode([*parts[:9], parts[9], b"\x00" + parts[10], parts[11]]).hex()
    for other in (padded, honest + "00"):
        with pytest.raises(SigningRefused, match="the signed bytes"):
            check_signed(other, read, ADDRESS)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_flipped_bit_gets_through(read: ReadTransaction, position: int, bit: int) -> None:
    raw = bytearray.fromhex(signed_by(KEY, read.to_sign())[2:])
    raw[position % len(raw)] ^= 1 << bit
    with pytest.raises(SigningRefused):
        check_signed("0x" + raw.hex(), read, ADDRESS)
