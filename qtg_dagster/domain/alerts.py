"""Alerts: what a person must know of, and when which word of it is due. Pure; the rows are the store's.

An *episode* is one life of an alert, from the moment its condition is seen until it has stayed away. Two steps move it:
`observe` says what was seen, `tell` says what people are owed by now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

#: The worker's name.
NOTIFICATION_DISPATCHER = "notification_dispatcher"
FLAP_WINDOW = timedelta(hours=1)


class Severity(StrEnum):
    """How much it matters; `critical` = money may be held up or the platform stands still."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}


class AlertKind(StrEnum):
    """What can be the matter; `docs/notifications.md` says of each what to do."""

    MANUAL_INTERVENTION = "manual_intervention"
    UNCERTAIN_NODE = "uncertain_node"
    MANUAL_STEP = "manual_step"
    TRANSFER_ATTENTION = "transfer_attention"
    CCIP_STRANDED = "ccip_stranded"
    DEAD_NONCE = "dead_nonce"
    DISPUTED_TRANSFER = "disputed_transfer"
    UNMATCHED_TRANSFERS = "unmatched_transfers"
    INCOMPLETE_RECORD = "incomplete_record"
    CALLBACK_DLQ = "callback_dlq"
    DRIFT = "drift"
    CORE_HALTED = "core_halted"
    WORKER_UNWELL = "worker_unwell"
    AUDIT_CHAIN = "audit_chain"
    BREAKER_OPEN = "breaker_open"
    OUTBOX_BEHIND = "outbox_behind"
    CHANNEL_FAILING = "channel_failing"
    BLIND = "blind"


class What(StrEnum):
    """What a message says of an alert."""

    OPENED = "opened"
    ESCALATED = "escalated"
    REMINDED = "reminded"
    RESOLVED = "resolved"


class Outcome(StrEnum):
    """What became of a message to one channel."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"  # given up: older than a message is worth
    SUPERSEDED = "superseded"  # overtaken by later news before it was sent
    DROPPED = "dropped"  # its channel is no longer in the inventory


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is the matter now. `key` tells it from others of its kind."""

    kind: AlertKind
    key: str
    severity: Severity
    title: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    allowed: Sequence[str] = ()  # what people may do now
    look: Sequence[str] = ()  # commands that show more
    asset: str = ""  # where in the web UI
    mark: str = ""  # changes when there is more to say; for sources that ask only then

    @property
    def name(self) -> tuple[str, str]:
        return self.kind.value, self.key

    def details(self) -> dict[str, Any]:
        """All but what has a column of its own."""
        return {
            "evidence": dict(self.evidence),
            "allowed": list(self.allowed),
            "look": list(self.look),
            "asset": self.asset,
            **({"mark": self.mark} if self.mark else {}),
        }


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """When an alert is over, when it is told again, and how often one that comes and goes is told."""

    settle_seconds: float = 60
    remind_seconds: float = 4 * 3600
    most_per_hour: int = 3


@dataclass(frozen=True, slots=True)
class Episode:
    """How one episode stands. `told` is the highest severity that people have heard of."""

    severity: Severity
    absent_since: datetime | None = None
    resolved_at: datetime | None = None
    told: Severity | None = None
    opened_told_at: datetime | None = None
    last_told_at: datetime | None = None
    resolution_told_at: datetime | None = None
    acknowledged_until: datetime | None = None
    times_seen: int = 1


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier episode of the same alert: when it was told of, and how loudly."""

    opened_told_at: datetime
    told: Severity


def observe(episode: Episode | None, seen: Severity | None, now: datetime, policy: AlertPolicy) -> Episode | None:
    """The episode after a look at its condition; `seen` is None when it does not hold. A resolved one stays resolved.

    A condition that is gone for less than `settle_seconds` was never gone.
    """
    if episode is None:
        return Episode(seen) if seen is not None else None
    if episode.resolved_at is not None:
        return episode
    if seen is not None:
        again = episode.times_seen + (episode.absent_since is not None)
        return replace(episode, severity=seen, absent_since=None, times_seen=again)
    since = episode.absent_since or now
    if (now - since).total_seconds() < policy.settle_seconds:
        return replace(episode, absent_since=since)
    return replace(episode, absent_since=since, resolved_at=now)


def tell(
    episode: Episode, now: datetime, policy: AlertPolicy, earlier: Sequence[Earlier] = ()
) -> tuple[Episode, What] | None:
    """The word that is due now, and the episode once it is given; None when there is nothing to say.

    | word | when |
    | --- | --- |
    | opened | it holds and nobody was told, unless it came and went too often within the hour |
    | escalated | it became more severe than anybody was told; an acknowledgement of less no longer counts |
    | reminded | it still holds, is more than info, nobody acknowledged it, and the last word is old |
    | resolved | it is over and people were told of it |
    """
    if episode.resolved_at is not None:
        if episode.told is None or episode.resolution_told_at is not None:
            return None
        return replace(episode, resolution_told_at=now, last_told_at=now), What.RESOLVED
    if episode.absent_since is not None:
        return None
    if episode.told is None:
        if not may_open(episode.severity, now, policy, earlier):
            return None
        return replace(episode, told=episode.severity, opened_told_at=now, last_told_at=now), What.OPENED
    if episode.severity.rank > episode.told.rank:
        louder = replace(episode, told=episode.severity, last_told_at=now, acknowledged_until=None)
        return louder, What.ESCALATED
    if _reminder_is_due(episode, now, policy):
        return replace(episode, last_told_at=now), What.REMINDED
    return None


def may_open(severity: Severity, now: datetime, policy: AlertPolicy, earlier: Sequence[Earlier]) -> bool:
    """Whether people hear of another episode: only so many an hour, unless it is worse than all of those."""
    lately = [each for each in earlier if now - each.opened_told_at < FLAP_WINDOW]
    return len(lately) < policy.most_per_hour or all(severity.rank > each.told.rank for each in lately)


def _reminder_is_due(episode: Episode, now: datetime, policy: AlertPolicy) -> bool:
    if episode.severity is Severity.INFO or episode.last_told_at is None:
        return False
    if episode.acknowledged_until is not None and now < episode.acknowledged_until:
        return False
    return (now - episode.last_told_at).total_seconds() >= policy.remind_seconds


def next_delivery(pending: What | None, attempted: bool, heard: bool, word: What) -> tuple[bool, What | None]:
    """What one channel gets for a new word: whether its unsent message is overtaken, and the message to add.

    A message is written when it is sent, from how the alert stands then; so an unsent one already carries later news.
    Whoever has not heard of an alert, and cannot have (`attempted`), is not told that it is over.
    """
    if word is not What.RESOLVED:
        return False, None if pending is not None else word
    if pending is None:
        return False, What.RESOLVED if heard else None
    return True, What.RESOLVED if heard or attempted else None


def wants(least: Severity, kinds: Sequence[str], classes: Sequence[str], about: tuple[str, str, Severity]) -> bool:
    """Whether a channel of these terms takes an alert of (network class, kind, severity); no terms take all."""
    network_class, kind, severity = about
    return severity.rank >= least.rank and (not kinds or kind in kinds) and (not classes or network_class in classes)
