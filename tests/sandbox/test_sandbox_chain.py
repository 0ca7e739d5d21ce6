"""The sandbox chain keeps what it took, however it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox import contracts
from qtg_dagster.sandbox.chain_journal import ChainJournal
from qtg_dagster.sandbox.faucet import Faucet

FRIEND = "0x" + "5a" * 20


def test_the_token_is_circles_own(chain: Any, faucet_at: Callable[[str], Faucet]) -> None:
    faucet = faucet_at(chain.url)
    token = contracts.deploy_usdc(faucet)
    contracts.mint(faucet, token, FRIEND, 5_000_000)
    assert contracts.balance(faucet, token, FRIEND) == 5_000_000
    version = faucet.call("eth_call", {"to": token, "data": contracts.call("version()")}, "latest")
    assert bytes.fromhex(version[2:])[64:65] == b"2"
    decimals = faucet.call("eth_call", {"to": token, "data": contracts.call("decimals()")}, "latest")
    assert int(decimals, 16) == 6
    # The linked library works: an unsigned permit reaches the signature check.
    permit = contracts.call(
        "permit(address,address,uint256,uint256,bytes)",
        ("address", FRIEND),
        ("address", faucet.address),
        ("uint256", 1),
        ("uint256", 2**255),
        ("bytes", b"\x01" * 65),
    )
    with pytest.raises(ConfigurationError, match=r"signature"):
        faucet.call("eth_call", {"to": token, "data": permit}, "latest")


def test_kill_9_loses_no_transaction(start_chain: Callable[[], Any], faucet_at: Callable[[str], Faucet]) -> None:
    first = start_chain()
    faucet = faucet_at(first.url)
    token = contracts.deploy_usdc(faucet)
    receipts = []
    for number in range(1, 6):
        contracts.mint(faucet, token, FRIEND, number)
        receipts.append(faucet.send(to=FRIEND, value=number))
    height = int(faucet.call("eth_blockNumber"), 16)
    first.kill()
    again = faucet_at(start_chain().url)
    assert contracts.balance(again, token, FRIEND) == 15
    assert int(again.call("eth_getBalance", FRIEND, "latest"), 16) == 15
    for receipt in receipts:
        found = again.call("eth_getTransactionReceipt", receipt["transactionHash"])
        assert found["status"] == "0x1"
        assert int(found["blockNumber"], 16) >= int(receipt["blockNumber"], 16), "never below what was already read"
    assert int(again.call("eth_blockNumber"), 16) >= height


def test_an_orderly_stop_keeps_every_block_as_it_was(
    start_chain: Callable[[], Any], faucet_at: Callable[[str], Faucet]
) -> None:
    first = start_chain()
    receipt = faucet_at(first.url).send(to=FRIEND, value=1)
    assert first.stop() == 0
    found = faucet_at(start_chain().url).call("eth_getTransactionReceipt", receipt["transactionHash"])
    assert found["blockHash"] == receipt["blockHash"]


def test_a_killed_chain_leaves_no_node_behind(start_chain: Callable[[], Any], tmp_path: Path) -> None:
    chain = start_chain()
    children = Path(f"/proc/{chain.process.pid}/task/{chain.process.pid}/children")
    if not children.is_file():
        pytest.skip("no /proc on this system")
    (node,) = children.read_text().split()
    chain.kill()
    deadline = time.monotonic() + 10
    while _runs(node) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(node)


def _runs(pid: str) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_confirmations_advance_after_a_transaction_without_more_traffic(
    chain: Any, faucet_at: Callable[[str], Faucet]
) -> None:
    faucet = faucet_at(chain.url)
    mined = int(faucet.send(to=FRIEND, value=1)["blockNumber"], 16)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if int(faucet.call("eth_getBlockByNumber", "finalized", False)["number"], 16) >= mined:
            return
        time.sleep(0.01)
    pytest.fail("never final")


def test_a_refused_transaction_is_not_tried_again(
    start_chain: Callable[[], Any], faucet_at: Callable[[str], Faucet]
) -> None:
    chain = start_chain()
    with pytest.raises(ConfigurationError, match="refuses"):
        faucet_at(chain.url).call("eth_sendRawTransaction", "0x02c0")
    journal = chain.home / "sandbox" / "chain" / "journal.jsonl"
    assert ChainJournal.read(journal).raw_transactions == ()
    assert {"raw": "0x02c0"} in [json.loads(line) for line in journal.read_text().splitlines()]


def test_bytes_that_are_sent_again_after_they_were_mined_survive_a_kill(
    start_chain: Callable[[], Any], faucet_at: Callable[[str], Faucet]
) -> None:
    """The second sending is refused (its nonce is used); that must not strike the first from the journal."""
    chain = start_chain()
    faucet = faucet_at(chain.url)
    receipt = faucet.send(to=FRIEND, value=3)
    journal = chain.home / "sandbox" / "chain" / "journal.jsonl"
    (raw,) = ChainJournal.read(journal).raw_transactions
    with pytest.raises(ConfigurationError, match="refuses"):
        faucet.call("eth_sendRawTransaction", raw)
    chain.kill()
    found = faucet_at(start_chain().url).call("eth_getTransactionReceipt", receipt["transactionHash"])
    assert found["status"] == "0x1"


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with ChainJournal(path) as journal:
        journal.record_height(7)
        journal.record_transaction("0x01")
        journal.record_transaction("0x02")
    path.write_bytes(path.read_bytes()[:-5])
    replay = ChainJournal.read(path)
    assert replay.raw_transactions == ("0x01",)
    assert replay.height == 8


entries = st.lists(
    st.one_of(
        st.tuples(st.just("raw"), st.sampled_from(["0x01", "0x02", "0x03"])),
        st.tuples(st.just("refused"), st.sampled_from(["0x01", "0x02", "0x03"])),
        st.tuples(st.just("height"), st.integers(0, 50)),
    ),
    max_size=20,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries)
def test_a_journal_asks_for_what_was_taken_and_not_refused(tmp_path: Path, entries: list[tuple[str, Any]]) -> None:
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    wanted: dict[str, None] = {}
    highest = 0
    with ChainJournal(path) as journal:
        for kind, value in entries:
            if kind == "raw":
                journal.record_transaction(value)
                wanted[value] = None
            elif kind == "refused":
                journal.record_refusal(value)
                wanted.pop(value, None)
                assert not journal.holds(value)
            else:
                journal.record_height(value)
                highest = max(highest, value)
    replay = ChainJournal.read(path)
    assert replay.raw_transactions == tuple(wanted)
    assert replay.height >= highest
