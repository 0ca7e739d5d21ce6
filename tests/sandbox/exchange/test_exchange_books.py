"""The books balance whatever happens, are append-only, and belong to one process."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qtg_dagster.domain.errors import ConfigurationError, Conflict
from qtg_dagster.sandbox.exchange.books import CUSTOMER_BUCKETS, Books, Bucket, MoveKind
from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.declined import Declined
from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalDesk, WithdrawalOrder, WithdrawalStatus

NETWORK = {"withdraw_fee": "0.1", "withdraw_step": "0.01", "deposit_address": "0x" + "ab" * 20}
VENUE = VenueConfig.model_validate(
    {
        "api_key": "key-of-the-venue",
        "api_secret": "secret",
        "hot_wallet_key_file": "unused",
        "coins": {"USDC": {"decimals": 6, "networks": {"ETH": NETWORK}}},
        "initial_balances": {"USDC": "100"},
    }
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("withdraw"), st.integers(min_value=0, max_value=8_000)),
        st.tuples(st.just("return"), st.integers(min_value=0, max_value=9)),
        st.tuples(st.just("deposit"), st.integers(min_value=1, max_value=10**9)),
        st.tuples(st.just("crash"), st.integers(min_value=1, max_value=10**9)),
    ),
    max_size=25,
)


def open_books(folder: Path) -> tuple[Ledger, Books, WithdrawalDesk]:
    ledger = Ledger(folder / "ledger.sqlite")
    books = Books(ledger, {"v": VENUE})
    books.open_accounts()
    return ledger, books, WithdrawalDesk("v", VENUE, ledger, books)


class Lost(Exception):
    """Stands for whatever ends a transaction early."""


def play(step: tuple[str, int], ids: list[str], ledger: Ledger, books: Books, desk: WithdrawalDesk) -> None:
    action, number = step
    if action == "withdraw":
        text = f"{number // 100}.{number % 100:02}"
        order = WithdrawalOrder(coin="USDC", address="0x" + "cd" * 20, amount=text)
        with suppress(Declined):
            ids.append(desk.accept(desk.check(order, disabled=()), now_ms=1, key=f"w{len(ids)}"))
    elif action == "return" and ids:
        with suppress(Conflict):
            desk.give_back(ids[number % len(ids)], WithdrawalStatus.REJECTED, "", now_ms=2)
    elif action in ("deposit", "crash"):
        amount = VENUE.amount("USDC", f"{number // 10**6}.{number % 10**6:06}")
        reference = f"{len(books.moves())}"
        with suppress(Lost), ledger.transaction():
            books.post("v", MoveKind.DEPOSIT_CREDIT, amount, Bucket.OUTSIDE, Bucket.FREE, reference)
            if action == "crash":
                raise Lost


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_balances_are_the_sum_of_the_moves_and_nothing_is_made_or_lost(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        ledger, books, desk = open_books(Path(folder))
        ids: list[str] = []
        for step in steps:
            play(step, ids, ledger, books, desk)
        sums = dict.fromkeys((bucket.value for bucket in Bucket), Decimal(0))
        for move in books.moves():
            sums[move["source"]] -= Decimal(move["amount"])
            sums[move["target"]] += Decimal(move["amount"])
        own = books.balance("v", "USDC")
        assert [own.free.to_decimal(), own.withdrawing.to_decimal(), own.frozen.to_decimal()] == [
            sums[bucket] for bucket in CUSTOMER_BUCKETS
        ]
        assert sum(sums.values()) == 0
        assert all(sums[bucket] >= 0 for bucket in CUSTOMER_BUCKETS)
        open_rows = [row for row in desk.rows() if row["status"] == WithdrawalStatus.AWAITING_APPROVAL]
        assert sum(Decimal(row["net"]) + Decimal(row["fee"]) for row in open_rows) == sums["withdrawing"]
        ledger.close()
        reopened, again, _ = open_books(Path(folder))
        assert again.balance("v", "USDC") == own
        reopened.close()


@pytest.mark.parametrize("change", ["UPDATE moves SET amount = '1'", "DELETE FROM moves"])
def test_a_posted_move_is_never_changed(tmp_path: Path, change: str) -> None:
    ledger, books, _ = open_books(tmp_path)
    before = books.moves()
    with pytest.raises(sqlite3.IntegrityError, match="append-only"), ledger.transaction():
        ledger.write(change)
    assert books.moves() == before
    ledger.close()


def test_a_move_of_one_kind_and_reference_happens_once(tmp_path: Path) -> None:
    ledger, books, _ = open_books(tmp_path)
    amount = VENUE.amount("USDC", "5")
    for repeated in (False, True):
        if repeated:
            with pytest.raises(sqlite3.IntegrityError), ledger.transaction():
                books.post("v", MoveKind.DEPOSIT_CREDIT, amount, Bucket.OUTSIDE, Bucket.FREE, "0xaa:0")
        else:
            with ledger.transaction():
                books.post("v", MoveKind.DEPOSIT_CREDIT, amount, Bucket.OUTSIDE, Bucket.FREE, "0xaa:0")
    assert books.balance("v", "USDC").free.to_text() == "105"
    ledger.close()


def test_an_overdraft_is_not_posted(tmp_path: Path) -> None:
    ledger, books, _ = open_books(tmp_path)
    amount = VENUE.amount("USDC", "100.000001")
    with pytest.raises(ValueError, match="overdraws"), ledger.transaction():
        books.post("v", MoveKind.WITHDRAWAL_HOLD, amount, Bucket.FREE, Bucket.WITHDRAWING, "w1")
    assert books.balance("v", "USDC").free.to_text() == "100"
    ledger.close()


def test_a_write_outside_a_transaction_is_refused(tmp_path: Path) -> None:
    ledger, _, _ = open_books(tmp_path)
    with pytest.raises(RuntimeError, match="inside a transaction"):
        ledger.set_meta("a", "b")
    ledger.close()


def test_a_ledger_is_held_by_one_process_and_one_epoch(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path, epoch="one")
    with pytest.raises(ConfigurationError, match="in use by another process"):
        Ledger(path, epoch="one")
    ledger.close()
    with pytest.raises(ConfigurationError, match="belongs to epoch one"):
        Ledger(path, epoch="two")
    Ledger(path, epoch="one").close()
