"""What follows from a look: which alerts open, change or end, and which word of which is due. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from qtg_dagster.domain.alerts import AlertPolicy, Condition, Earlier, Episode, What, observe, tell
from qtg_dagster.store.alerts import StoredAlert

#: A condition that holds on is written down this often: who looks at the list sees that somebody looks.
REFRESH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Observed:
    """An open alert after a look at its condition; `condition` is None when that was not found."""

    alert: StoredAlert
    episode: Episode
    condition: Condition | None


@dataclass(frozen=True, slots=True)
class Word:
    """A word that is due, and how the episode stands once it is given."""

    alert: StoredAlert
    episode: Episode
    what: What


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look found, and which kinds were looked for: those of a source that failed are left as they are."""

    conditions: Sequence[Condition]
    kinds: frozenset[str]
    at: datetime
    failed: Mapping[str, str] = field(default_factory=dict)


def openings(seen: Seen, standing: Sequence[StoredAlert]) -> list[Condition]:
    """Conditions that no open alert is about, each once."""
    known = {alert.name for alert in standing if alert.episode.resolved_at is None}
    return list({one.name: one for one in seen.conditions if one.name not in known}.values())


def observations(seen: Seen, standing: Sequence[StoredAlert], now: datetime, policy: AlertPolicy) -> list[Observed]:
    """Open alerts that a look changes, or that it is time to note again."""
    found = {one.name: one for one in seen.conditions}
    changed: list[Observed] = []
    for alert in standing:
        if alert.view.raised or alert.episode.resolved_at is not None or alert.view.kind not in seen.kinds:
            continue
        condition = found.get(alert.name)
        episode = observe(alert.episode, condition.severity if condition else None, now, policy)
        assert episode is not None  # noqa: S101 - there was one
        if episode != alert.episode or (condition is not None and _has_news(alert, condition, now)):
            changed.append(Observed(alert, episode, condition))
    return changed


def words(
    standing: Sequence[StoredAlert],
    earlier: Mapping[tuple[str, str], Sequence[Earlier]],
    now: datetime,
    policy: AlertPolicy,
) -> list[Word]:
    """The words that are due."""
    due: list[Word] = []
    for alert in standing:
        told = tell(alert.episode, now, policy, earlier.get(alert.name, ()))
        if told is not None:
            due.append(Word(alert, *told))
    return due


def _has_news(alert: StoredAlert, condition: Condition, now: datetime) -> bool:
    if (now - alert.view.last_seen_at).total_seconds() >= REFRESH_SECONDS:
        return True
    return condition.title != alert.view.title or condition.mark != alert.view.details.get("mark", "")
