"""When a withdrawal may be asked for again under its id, and how long nobody counts what was not found before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.lanes.cex.accounts import VenueAccounts
from qtg_dagster.lanes.cex.negative_proof import Absence
from qtg_dagster.lanes.cex.withdrawal_resend import MOST, REMEMBERED_FOR, Resends, why_not_again

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_request_is_sent_again_a_few_times_and_within_a_day() -> None:
    resends = Resends("c1")
    for _ in range(MOST):
        assert why_not_again(resends, START, START + timedelta(hours=1)) is None
        resends = resends.again(START)
    assert "times more" in str(why_not_again(resends, START, START))
    assert why_not_again(Resends("c1"), START, START + REMEMBERED_FOR) is None
    assert "too old" in str(why_not_again(Resends("c1"), START, START + REMEMBERED_FOR + timedelta(seconds=1)))


def test_what_was_sent_again_is_kept_between_looks_and_is_no_other_attempts() -> None:
    resends = Resends("c1").again(START).again(START + timedelta(minutes=11))
    assert Resends.from_refs(resends.to_refs(), "c1") == resends
    assert Resends.from_refs(resends.to_refs(), "c2") == Resends("c2")
    assert Resends("c1").to_refs() == {}


def test_a_second_request_makes_earlier_empty_looks_count_for_nothing() -> None:
    absence = Absence("c1")
    for minutes in (0, 5, 10):
        absence = absence.seen_again(START + timedelta(minutes=minutes), START - timedelta(seconds=1))
    assert absence.is_long_enough
    sent_again = START + timedelta(minutes=12)
    during = absence.seen_again(START + timedelta(minutes=11), sent_again)
    assert not during.is_long_enough
    after = absence.seen_again(START + timedelta(minutes=13), sent_again)
    assert (after.lookups, after.is_long_enough) == (1, False)


def test_a_venue_that_promises_nothing_about_repeats_is_never_asked_again(make_inventory: Any) -> None:
    inventory = make_inventory("http://127.0.0.1:1", resend_is_safe=True)
    with pytest.raises(ConfigurationError, match=r"venues\.venue_a\.resend_is_safe: binance"):
        VenueAccounts(inventory)
