"""Pure pieces of evidence: who took a nonce, why a call reverted, how long a limit lasts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.evm.endpoint import _retry_after
from qtg_dagster.lanes.evm.fate import find_nonce_taker
from qtg_dagster.lanes.evm.receipts import decode_revert
from qtg_dagster.lanes.evm.rpc import ChainRpc

SENDER = "0x" + "5a" * 20


class PastBlocks:
    """A chain of which only one sender's transactions matter: `used[n]` is the block that used nonce n."""

    key = "eip155:31337"

    def __init__(self, used: list[int]) -> None:
        self.used = used
        self.questions = 0

    async def quantity(self, method: str, sender: str, block: str) -> int:
        assert (method, sender) == ("eth_getTransactionCount", SENDER)
        self.questions += 1
        return sum(at <= int(block, 16) for at in self.used)

    async def ask(self, method: str, block: str, full: bool) -> dict[str, Any]:
        assert (method, full) == ("eth_getBlockByNumber", True)
        number = int(block, 16)
        mine = [{"from": SENDER, "nonce": hex(n), "hash": f"0x{n}"} for n, at in enumerate(self.used) if at == number]
        return {"transactions": [{"from": "0x" + "66" * 20, "nonce": "0x0", "hash": "0xother"}, *mine]}


@given(
    used=st.lists(st.integers(0, 5000), max_size=30).map(sorted),
    nonce=st.integers(0, 35),
    final=st.integers(-1, 6000),
)
async def test_the_taker_of_a_nonce_is_found_wherever_it_is_and_only_below_finality(
    used: list[int], nonce: int, final: int
) -> None:
    chain = PastBlocks(used)
    found = await find_nonce_taker(cast("ChainRpc", chain), SENDER, nonce, final)
    taken = nonce < len(used) and used[nonce] <= final
    assert found == ((f"0x{nonce}", used[nonce]) if taken else None)
    assert chain.questions <= 30


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("0x08c379a0" + "20".rjust(64, "0") + "5".rjust(64, "0") + b"hello".hex().ljust(64, "0"), "hello"),
        ("0x4e487b71" + "11".rjust(64, "0"), "panic 0x11"),
        ("0xe450d38c" + "00" * 32, "custom error 0xe450d38c"),
        ("0x08c379a0zz", "unreadable revert data 0x08c379a0zz"),
        ("0x", None),
        (None, None),
    ],
)
def test_reverts_are_read(data: Any, reason: str | None) -> None:
    assert decode_revert(data) == reason


@given(st.text(st.characters(codec="latin-1")))
def test_strange_revert_data_never_raises(data: str) -> None:
    assert decode_revert("0x08c379a0" + data) is not None


def test_retry_after_is_seconds_or_a_moment() -> None:
    assert _retry_after("17") == 17
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < (_retry_after(moment) or 0) <= 100
    assert _retry_after(None) is None
    assert _retry_after("soon") is None
    assert _retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0
