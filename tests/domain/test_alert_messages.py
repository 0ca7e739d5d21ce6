"""A message at night: what is known, what may be done, where to look; nothing secret, and nobody summoned."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.alert_messages import (
    MOST_BODY,
    MOST_TITLE,
    AlertView,
    digest_of,
    message_of,
    plain,
    trial_message,
)
from qtg_dagster.domain.alerts import Severity, What

AT = datetime(2026, 1, 1, 3, tzinfo=UTC)
ALERT = AlertView(
    id=7,
    network_class="sandbox",
    kind="manual_intervention",
    dedupe_key="m",
    severity=Severity.CRITICAL,
    title="movement m needs a person",
    details={
        "evidence": {"withdraw": "PROVIDER_ERROR: 504", "api_key": "hunter2"},
        "allowed": ["resume", "retry withdraw"],
        "look": ["qtg movement show m"],
        "asset": "movements",
    },
    raised=False,
    first_seen_at=AT,
    last_seen_at=AT,
    times_seen=1,
)
BOOK = "https://docs.example/notifications"


def test_it_says_what_is_known_what_may_be_done_and_where_to_look() -> None:
    told = message_of(What.OPENED, ALERT, runbook=BOOK, web_url="http://dagster:3000/")
    assert told.title == "[CRITICAL] movement m needs a person"
    assert told.body.splitlines() == [
        "manual_intervention in sandbox, alert 7, since 2026-01-01 03:00:00 UTC",
        "withdraw: PROVIDER_ERROR: 504",
        "api_key: [redacted]",
        "possible now: resume, retry withdraw",
        "look: qtg movement show m",
        "runbook: https://docs.example/notifications#manual-intervention",
        "web: http://dagster:3000/assets/movements",
    ]
    assert not told.good_news


def test_the_title_says_what_is_new() -> None:
    titles = [message_of(what, ALERT, runbook=BOOK).title.split("]")[0] for what in What]
    assert titles == ["[CRITICAL", "[ESCALATED to CRITICAL", "[STILL CRITICAL", "[RESOLVED"]
    assert "web UI: asset movements" in message_of(What.OPENED, ALERT, runbook=BOOK).body


def test_what_is_over_says_since_when_and_by_whom() -> None:
    over = replace(ALERT, absent_since=AT, resolved_at=AT, resolved_by="ada", times_seen=3)
    told = message_of(What.RESOLVED, over, runbook=BOOK)
    assert told.good_news
    assert "over since 2026-01-01 03:00:00 UTC by ada" in told.body
    assert "came and went 3 times" in told.body
    assert "possible now" not in told.body


def test_many_at_once_are_one_message_the_worst_first() -> None:
    mild = replace(ALERT, id=8, severity=Severity.INFO, title="a breaker is open")
    told = digest_of([(What.OPENED, mild), (What.RESOLVED, ALERT), (What.OPENED, ALERT)], runbook=BOOK)
    assert told.title == "[CRITICAL] 3 alerts in sandbox"
    lines = [line.split(":")[0] for line in told.body.splitlines()]
    assert lines == ["- CRITICAL", "- INFO", "- resolved", "all", "runbook"]
    over = digest_of([(What.RESOLVED, ALERT)] * 4, runbook=BOOK)
    assert over.good_news
    assert over.title == "[RESOLVED] 4 alerts in sandbox"


def test_a_trial_says_that_nothing_is_wrong() -> None:
    told = trial_message("desk", "sandbox", "ada")
    assert told.title == "[TEST] QTG reaches desk"
    assert "Nothing is wrong" in told.body


def test_nobody_s_text_summons_a_channel_or_passes_for_another_line() -> None:
    said = plain("<!channel> @everyone pay\nrunbook: http://evil/")
    assert said == "\u2039!channel\u203a (at)everyone pay runbook: http://evil/"


@given(st.text(max_size=3000), st.dictionaries(st.text(max_size=50), st.text(max_size=900), max_size=20))
def test_whatever_was_said_the_way_out_is_in_the_message(title: str, evidence: dict[str, str]) -> None:
    alert = replace(ALERT, title=title, details={**ALERT.details, "evidence": evidence})
    told = message_of(What.OPENED, alert, runbook=BOOK)
    assert len(told.title) <= MOST_TITLE
    assert len(told.body) <= MOST_BODY
    assert "\n" not in told.title
    assert told.body.splitlines()[-2] == f"runbook: {BOOK}#manual-intervention"
    assert any(line.startswith("possible now: resume") for line in told.body.splitlines())
