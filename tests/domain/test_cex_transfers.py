"""What a sighting of a transfer does to our record: news once, ends never overwritten, nothing twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.cex_transfers import (
    Change,
    Effect,
    Facts,
    SeenTransfer,
    StoredTransfer,
    TransferKind,
    TransferStatus,
    Verdict,
    judge,
    news,
)
from qtg_dagster.lanes.cex.venue import RowState

S = TransferStatus
FACTS = Facts(S.PENDING, "4", None, Decimal("12.5"), Decimal("1"), "0")


def seen(facts: Facts = FACTS, **changes: Any) -> SeenTransfer:
    fields: dict[str, Any] = {
        "kind": TransferKind.WITHDRAWAL,
        "row_key": "w1",
        "coin": "USDC",
        "network": "ETH",
        "address": "0xab",
        "memo": None,
        "client_id": None,
        "internal": False,
        "status_listed": True,
        "occurred_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "facts": facts,
        "raw": {"id": "w1", "status": facts.raw_status},
        **changes,
    }
    return SeenTransfer(**fields)


class Record:
    """One row, changed by verdicts as the store does it."""

    def __init__(self) -> None:
        self.row: StoredTransfer | None = None
        self.events: list[tuple[Change, ...]] = []

    def see(self, sighting: SeenTransfer) -> Verdict:
        verdict = judge(self.row, sighting)
        if verdict.changes:
            self.events.append(verdict.changes)
        if verdict.effect is Effect.DISPUTE:
            assert self.row is not None
            self.row = replace(self.row, disputed=verdict.disputed, disputed_hash=sighting.content_hash)
        elif verdict.effect is not Effect.NOTHING:
            self.row = StoredTransfer(1, sighting.facts, sighting.content_hash, verdict.disputed)
        return verdict

    def settle(self) -> None:
        """A person says that our end stands."""
        assert self.row is not None
        self.row = replace(self.row, disputed=None)


def with_status(status: S) -> SeenTransfer:
    return seen(replace(FACTS, status=status, raw_status=status.value))


def test_the_states_are_those_that_adapters_read() -> None:
    assert {status.value for status in TransferStatus} == {state.value for state in RowState}


def test_the_first_sighting_is_news_and_the_same_again_is_none() -> None:
    record = Record()
    assert record.see(seen()) == Verdict(Effect.INSERT, (Change.FIRST_SEEN,))
    assert record.see(seen()) == Verdict(Effect.NOTHING)


@pytest.mark.parametrize(
    ("changed", "change"),
    [
        ({"status": S.DONE}, Change.STATUS),
        ({"raw_status": "2"}, Change.STATUS),
        ({"tx_id": "0x1"}, Change.TX_ID),
        ({"amount": Decimal("12")}, Change.AMOUNT),
        ({"fee": Decimal("2")}, Change.AMOUNT),
        ({"confirmations": "1"}, Change.CONFIRMATIONS),
    ],
)
def test_each_fact_that_changes_is_told(changed: dict[str, Any], change: Change) -> None:
    record = Record()
    record.see(seen())
    assert record.see(seen(replace(FACTS, **changed))) == Verdict(Effect.UPDATE, (change,))


def test_another_spelling_of_an_amount_is_no_news() -> None:
    assert news(FACTS, replace(FACTS, amount=Decimal("12.500"))) == ()


def test_what_else_changes_in_the_row_is_stored_and_no_event() -> None:
    record = Record()
    record.see(seen())
    assert record.see(seen(raw={"id": "w1", "info": "x"})) == Verdict(Effect.UPDATE)


def test_a_replaced_transaction_is_told_even_after_the_end() -> None:
    record = Record()
    done = replace(FACTS, status=S.DONE, raw_status="6", tx_id="0x1")
    record.see(seen(done))
    assert record.see(seen(replace(done, tx_id="0x2"))) == Verdict(Effect.UPDATE, (Change.TX_ID,))


def test_another_end_is_disputed_once_and_stays_so_until_a_person_settles_it() -> None:
    record = Record()
    record.see(with_status(S.DONE))
    assert record.see(with_status(S.FAILED)) == Verdict(Effect.DISPUTE, (Change.DISPUTED,), S.FAILED)
    assert record.see(with_status(S.FAILED)) == Verdict(Effect.NOTHING)
    assert record.see(with_status(S.DONE)) == Verdict(Effect.AGREE, (Change.AGREES_AGAIN,), S.FAILED)
    assert record.see(with_status(S.DONE)) == Verdict(Effect.NOTHING)
    assert record.row is not None
    assert (record.row.facts.status, record.row.disputed) == (S.DONE, S.FAILED)


def test_other_news_of_a_disputed_transfer_settle_nothing() -> None:
    record = Record()
    for status in (S.DONE, S.FAILED, S.DONE):
        record.see(with_status(status))
    confirmed = seen(replace(FACTS, status=S.DONE, raw_status=S.DONE.value, confirmations="9"))
    assert record.see(confirmed) == Verdict(Effect.UPDATE, (Change.CONFIRMATIONS,), S.FAILED)
    assert record.row is not None
    assert record.row.disputed is S.FAILED


def test_a_step_back_is_over_when_the_venue_agrees_again() -> None:
    record = Record()
    record.see(with_status(S.DONE))
    assert record.see(with_status(S.PENDING)) == Verdict(Effect.DISPUTE, (Change.DISPUTED,), S.PENDING)
    assert record.see(with_status(S.DONE)) == Verdict(Effect.UNDISPUTE, (Change.AGREES_AGAIN,))
    assert record.row is not None
    assert record.row.disputed is None


def test_a_step_back_does_not_hide_another_end_that_was_shown_before_or_after() -> None:
    record = Record()
    for status in (S.DONE, S.PENDING, S.FAILED, S.PENDING):
        record.see(with_status(status))
    assert record.row is not None
    assert (record.row.facts.status, record.row.disputed) == (S.DONE, S.FAILED)


def test_what_a_person_settled_is_not_disputed_again_by_the_same_row() -> None:
    record = Record()
    record.see(with_status(S.DONE))
    record.see(with_status(S.FAILED))
    record.settle()
    assert record.see(with_status(S.FAILED)) == Verdict(Effect.NOTHING)
    assert record.see(with_status(S.CANCELLED)) == Verdict(Effect.DISPUTE, (Change.DISPUTED,), S.CANCELLED)


sightings = st.lists(
    st.builds(
        lambda status, tx, confirmations: seen(
            Facts(status, status.value, tx, Decimal(1), Decimal(0), confirmations), raw={"c": confirmations}
        ),
        st.sampled_from(TransferStatus),
        st.sampled_from([None, "0x1", "0x2"]),
        st.sampled_from(["0", "1"]),
    ),
    max_size=12,
)


@given(sightings)
def test_an_end_is_never_overwritten_and_every_sighting_counts_once(order: list[SeenTransfer]) -> None:
    record, ends = Record(), []
    for sighting in order:
        before = None if record.row is None else record.row.facts.status
        record.see(sighting)
        assert record.row is not None
        if before is not None and before.is_final:
            assert record.row.facts.status is before
            ends.append(sighting.facts.status)
        assert record.see(sighting) == Verdict(Effect.NOTHING)
    if record.row is not None and any(end.is_final and end is not record.row.facts.status for end in ends):
        assert record.row.disputed is not None
        assert record.row.disputed.is_final


@given(st.dictionaries(st.sampled_from(["coin", "network", "address", "memo", "client_id"]), st.text(min_size=1)))
def test_the_hash_is_of_everything_that_is_stored(changes: dict[str, str]) -> None:
    same = all(getattr(seen(), name) == value for name, value in changes.items())
    assert (seen(**changes).content_hash == seen().content_hash) is same
