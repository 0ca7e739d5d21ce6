"""What people are told of an alert: once, again when it matters, once when it is over, and never in a flood."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.alerts import (
    FLAP_WINDOW,
    AlertPolicy,
    Earlier,
    Episode,
    Severity,
    What,
    next_delivery,
    observe,
    tell,
    wants,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = AlertPolicy(settle_seconds=60, remind_seconds=3600, most_per_hour=3)
INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL

Told = tuple[datetime, What, int]


class Life:
    """The lives of one alert, looked at by whoever comes by."""

    def __init__(self, policy: AlertPolicy = POLICY) -> None:
        self.policy = policy
        self.now = T0
        self.ended: list[Episode] = []
        self.episode: Episode | None = None
        self.told: list[Told] = []
        self.acknowledged: list[tuple[datetime, datetime]] = []

    def look(self, seen: Severity | None, after: float = 0) -> What | None:
        self.now += timedelta(seconds=after)
        if self.episode is not None and self.episode.resolved_at is not None:
            self.ended.append(self.episode)
            self.episode = None
        self.episode = observe(self.episode, seen, self.now, self.policy)
        if self.episode is None:
            return None
        earlier = [Earlier(e.opened_told_at, e.told) for e in self.ended if e.opened_told_at and e.told]
        due = tell(self.episode, self.now, self.policy, earlier)
        if due is None:
            return None
        self.episode, word = due
        self.told.append((self.now, word, len(self.ended)))
        return word

    def acknowledge(self, seconds: float) -> None:
        if self.episode is not None and self.episode.resolved_at is None:
            until = self.now + timedelta(seconds=seconds)
            self.episode = replace(self.episode, acknowledged_until=until)


def test_an_alert_is_told_once_and_once_when_it_is_over() -> None:
    life = Life()
    assert life.look(WARNING) is What.OPENED
    assert [life.look(WARNING, 10) for _ in range(20)] == [None] * 20
    assert life.look(None, 10) is None
    assert life.look(None, 59) is None
    assert life.look(None, 1) is What.RESOLVED
    assert life.look(None, 1000) is None


def test_a_condition_that_is_gone_for_a_moment_was_never_gone() -> None:
    life = Life()
    life.look(WARNING)
    for _ in range(50):
        assert life.look(None, 30) is None
        assert life.look(WARNING, 20) is None
    assert life.episode is not None
    assert life.episode.times_seen == 51


def test_what_rises_is_told_again_and_what_falls_is_not() -> None:
    life = Life()
    assert life.look(INFO) is What.OPENED
    assert life.look(CRITICAL, 5) is What.ESCALATED
    assert life.look(WARNING, 5) is None
    assert life.look(CRITICAL, 5) is None


def test_a_reminder_waits_for_the_acknowledgement_to_run_out() -> None:
    life = Life()
    life.look(WARNING)
    assert life.look(WARNING, 3599) is None
    assert life.look(WARNING, 1) is What.REMINDED
    life.acknowledge(7200)
    assert life.look(WARNING, 7199) is None
    assert life.look(WARNING, 1) is What.REMINDED


def test_info_is_never_reminded_of() -> None:
    life = Life()
    life.look(INFO)
    assert life.look(INFO, 10 * 86400) is None


def test_what_gets_worse_breaks_the_silence_of_an_acknowledgement() -> None:
    life = Life()
    life.look(WARNING)
    life.acknowledge(86400)
    assert life.look(CRITICAL, 10) is What.ESCALATED
    assert life.look(CRITICAL, 3600) is What.REMINDED


def test_one_that_comes_and_goes_falls_silent_and_is_told_when_the_hour_allows() -> None:
    life = Life()
    for _ in range(3):
        assert life.look(WARNING, 61) is What.OPENED
        life.look(None, 1)
        assert life.look(None, 60) is What.RESOLVED
    assert life.look(WARNING, 61) is None
    assert life.look(WARNING, 3600) is What.OPENED


def test_one_that_comes_and_goes_is_still_told_when_it_is_worse_than_before() -> None:
    life = Life()
    for _ in range(3):
        life.look(WARNING, 61)
        life.look(None, 1)
        life.look(None, 60)
    assert life.look(CRITICAL, 1) is What.OPENED


def test_what_nobody_heard_of_ends_without_a_word() -> None:
    life = Life()
    for _ in range(3):
        life.look(WARNING, 61)
        life.look(None, 1)
        life.look(None, 60)
    assert life.look(WARNING, 1) is None
    assert [life.look(None, 100) for _ in range(3)] == [None, None, None]
    assert len(life.told) == 6


_SEEN = st.sampled_from([None, None, INFO, WARNING, CRITICAL])
_STEPS = st.lists(st.tuples(_SEEN, st.sampled_from([1, 10, 30, 61, 600, 4000]), st.booleans()), max_size=120)


@given(_STEPS)
def test_of_any_history_nothing_is_told_twice_or_out_of_turn(steps: list[tuple[Severity | None, int, bool]]) -> None:
    life = Life()
    silent: list[tuple[datetime, datetime, int]] = []
    for seen, after, acknowledge in steps:
        life.look(seen, after)
        if acknowledge and life.episode is not None and life.episode.resolved_at is None:
            life.acknowledge(2000)
            silent.append((life.now, life.now + timedelta(seconds=2000), len(life.ended)))
    for episode in {number for _, _, number in life.told}:
        words = [word for _, word, number in life.told if number == episode]
        assert words[0] is What.OPENED
        assert words.count(What.OPENED) == 1
        assert words.count(What.ESCALATED) <= 2
        assert words.count(What.RESOLVED) <= 1
        assert What.RESOLVED not in words[:-1]
    escalations = [(at, number) for at, word, number in life.told if word is What.ESCALATED]
    for at, word, number in life.told:
        if word is What.REMINDED:
            for begin, end, of in silent:
                broken = any(begin < when <= at and one == of for when, one in escalations)
                assert of != number or not begin < at < end or broken


@given(_STEPS)
def test_whatever_was_opened_is_resolved_once_the_condition_is_gone(
    steps: list[tuple[Severity | None, int, bool]],
) -> None:
    life = Life()
    for seen, after, _ in steps:
        life.look(seen, after)
    life.look(None, 1)
    life.look(None, 61)
    life.look(None, 61)
    words = [word for _, word, _ in life.told]
    assert words.count(What.OPENED) == words.count(What.RESOLVED)
    if words:
        assert words[-1] is What.RESOLVED


@given(_STEPS)
def test_flapping_is_bounded_in_every_hour(steps: list[tuple[Severity | None, int, bool]]) -> None:
    life = Life()
    for seen, after, _ in steps:
        life.look(seen, after)
    opened = [at for at, word, _ in life.told if word is What.OPENED]
    for start in opened:
        # Two more at most: one that is worse than all before, and one that is worse still.
        assert sum(start <= at < start + FLAP_WINDOW for at in opened) <= POLICY.most_per_hour + 2


@given(st.lists(st.sampled_from([What.ESCALATED, What.REMINDED]), max_size=6), st.lists(st.booleans(), max_size=8))
def test_a_channel_that_cannot_have_heard_is_not_told_that_it_is_over(words: list[What], sent: list[bool]) -> None:
    """A channel's queue of one alert: at most one unsent message, an end only after a beginning."""
    pending: What | None = None
    attempted = heard = False
    got: list[What] = []
    outcomes = iter([*sent, *[False] * 10])
    for word in [What.OPENED, *words, What.RESOLVED]:
        overtaken, added = next_delivery(pending, attempted, heard, word)
        if overtaken:
            pending = None
        if added is not None:
            assert pending is None
            pending, attempted = added, False
        if pending is not None and next(outcomes):
            got.append(pending)
            pending, heard = None, True
    if pending is What.RESOLVED:
        assert heard or attempted
    assert not got or got[0] is not What.RESOLVED


def test_a_channel_takes_what_its_terms_say() -> None:
    about = ("sandbox", "drift", WARNING)
    assert wants(INFO, (), (), about)
    assert wants(WARNING, ("drift",), ("sandbox",), about)
    assert not wants(CRITICAL, (), (), about)
    assert not wants(INFO, ("core_halted",), (), about)
    assert not wants(INFO, (), ("mainnet",), about)
