"""Replies to a broadcast, judged by their words; silence and strange words decide nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.evm.broadcast import Verdict, verdict_of_error, verdict_of_hash

CASES = [
    ("already known", Verdict.ACCEPTED),  # geth
    ("transaction already imported", Verdict.ACCEPTED),  # anvil
    ("Known transaction: 0xabc", Verdict.ACCEPTED),  # hardhat
    ("Transaction with the same hash was already imported.", Verdict.ACCEPTED),  # parity
    ("nonce too low: next nonce 5, tx nonce 3", Verdict.NONCE_TOO_LOW),
    ("Nonce too low. Expected nonce to be 2 but got 0.", Verdict.NONCE_TOO_LOW),
    ("replacement transaction underpriced", Verdict.UNDERPRICED),
    ("insufficient funds for gas * price + value: balance 1, tx cost 2", Verdict.NOT_NOW),
    ("max fee per gas less than block base fee", Verdict.NOT_NOW),
    ("transaction underpriced: tip needed 1, tip permitted 0", Verdict.NOT_NOW),
    ("invalid chain id for signer", Verdict.NEVER),
    ("intrinsic gas too low: have 1, want 21000", Verdict.NEVER),
    ("internal error", Verdict.UNKNOWN),
    ("rlp: expected input list", Verdict.UNKNOWN),
    ("", Verdict.UNKNOWN),
]


@pytest.mark.parametrize(("words", "verdict"), CASES)
def test_known_words(words: str, verdict: Verdict) -> None:
    assert verdict_of_error(words) is verdict
    assert verdict_of_error(words.upper()) is verdict


@given(st.text())
def test_unlisted_words_are_never_a_refusal(words: str) -> None:
    if not any(listed in words.lower() for listed in ("invalid chain id", "intrinsic gas too low")):
        assert verdict_of_error(words) is not Verdict.NEVER


@given(st.text(), st.sampled_from(CASES), st.text())
def test_a_gateways_wrapping_does_not_change_the_verdict(before: str, case: tuple[str, Verdict], after: str) -> None:
    words, verdict = case
    wrapped = verdict_of_error(f"{before} {words} {after}")
    assert verdict in (wrapped, Verdict.UNKNOWN) or wrapped in (Verdict.ACCEPTED, Verdict.NONCE_TOO_LOW)


@given(st.text(), st.from_regex(r"0x[0-9a-f]{64}", fullmatch=True))
def test_only_our_own_hash_is_an_acceptance(returned: str, expected: str) -> None:
    assert verdict_of_hash(expected.upper().replace("0X", "0x"), expected) is Verdict.ACCEPTED
    if returned.lower() != expected:
        assert verdict_of_hash(returned, expected) is Verdict.UNKNOWN
