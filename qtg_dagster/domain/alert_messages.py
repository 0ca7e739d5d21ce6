"""What a message says: short enough for a telephone at night; what is known, what may be done, where to look."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from qtg_dagster.domain.alerts import Severity, What
from qtg_dagster.domain.redaction import redact

MOST_TITLE = 200
MOST_BODY = 3_000
_MOST_EVIDENCE = 1_800
_MOST_VALUE = 400
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
#: What makes a whole channel's telephones ring, wherever a provider's or a person's text has it.
_SUMMONS = re.compile(r"@(?=everyone|here|channel|all\b)", re.IGNORECASE)
_ANGLES = str.maketrans({"<": "\u2039", ">": "\u203a"})


@dataclass(frozen=True, slots=True)
class AlertView:
    """An alert as it is shown and told."""

    id: int
    network_class: str
    kind: str
    dedupe_key: str
    severity: Severity
    title: str
    details: Mapping[str, Any]
    raised: bool
    first_seen_at: datetime
    last_seen_at: datetime
    times_seen: int
    absent_since: datetime | None = None
    resolved_at: datetime | None = None
    resolved_by: str | None = None
    told: Severity | None = None
    acknowledged_by: str | None = None
    acknowledged_until: datetime | None = None
    acknowledge_reason: str | None = None

    def line(self) -> str:
        """One line for a list."""
        state = f"resolved {self.resolved_at:%Y-%m-%d %H:%M}" if self.resolved_at else "open"
        known = (
            f", acknowledged by {self.acknowledged_by} until {self.acknowledged_until:%m-%d %H:%M}"
            if self.acknowledged_until
            else ""
        )
        since = f"since {self.first_seen_at:%Y-%m-%d %H:%M:%S}"
        return f"{self.id:>6}  {self.severity:<8}  {self.kind:<20}  {self.title}  ({state} {since}{known})"


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent: plain text, and how it is to be coloured. Messages of one `key` are about the same alert."""

    title: str
    body: str
    severity: Severity
    good_news: bool = False
    key: str = ""


def message_of(what: What, alert: AlertView, *, runbook: str, web_url: str = "") -> Message:
    """The message of one alert as it stands now."""
    over = what is What.RESOLVED
    head = "RESOLVED" if over else f"{_WORDS[what]}{alert.severity.upper()}"
    lines = [f"{alert.kind} in {alert.network_class}, alert {alert.id}, since {_utc(alert.first_seen_at)}"]
    if alert.times_seen > 1:
        lines.append(f"came and went {alert.times_seen} times")
    if over and alert.resolved_at is not None:
        by = f" by {alert.resolved_by}" if alert.resolved_by else ""
        lines.append(f"over since {_utc(alert.absent_since or alert.resolved_at)}{by}")
    if not over:
        lines += _known(alert.details)
    lines.append(f"runbook: {runbook}#{alert.kind.replace('_', '-')}")
    if web_url and alert.details.get("asset"):
        lines.append(f"web: {web_url.rstrip('/')}/assets/{alert.details['asset']}")
    elif alert.details.get("asset"):
        lines.append(f"web UI: asset {alert.details['asset']}")
    body = "\n".join(lines)
    title = plain(f"[{head}] {alert.title}", MOST_TITLE)
    key = f"{alert.network_class} {alert.kind} {alert.dedupe_key}"
    return Message(title, _cut(body, MOST_BODY), alert.severity, good_news=over, key=key)


def digest_of(told: Sequence[tuple[What, AlertView]], *, runbook: str) -> Message:
    """One message of many alerts that came together: the worst first, and where all of them are."""
    worst = sorted(told, key=lambda each: (each[0] is What.RESOLVED, -each[1].severity.rank, each[1].id))
    open_ones = [alert for what, alert in told if what is not What.RESOLVED]
    severity = max((alert.severity for alert in open_ones or [a for _, a in told]), key=lambda each: each.rank)
    head = severity.upper() if open_ones else "RESOLVED"
    lines = [
        plain(f"- {what if what is What.RESOLVED else alert.severity.upper()}: {alert.title} (alert {alert.id})", 240)
        for what, alert in worst
    ]
    lines += ["all: qtg alert list", f"runbook: {runbook}"]
    title = f"[{head}] {len(told)} alerts in {told[0][1].network_class}"
    return Message(title, _cut("\n".join(lines), MOST_BODY), severity, good_news=not open_ones)


def trial_message(channel: str, network_class: str, actor: str) -> Message:
    """What `qtg alert test` sends."""
    body = f"{plain(actor, 80)} tests the channel {channel} of network class {network_class}. Nothing is wrong."
    return Message(f"[TEST] QTG reaches {channel}", body, Severity.INFO, key=f"{network_class} test {channel}")


def plain(value: object, most: int = _MOST_VALUE) -> str:
    """One line without secrets, mark-up of chats, or a word that summons a whole channel."""
    text = value if isinstance(value, str) else json.dumps(redact(value), ensure_ascii=False, default=str)
    text = _CONTROL.sub(" ", str(redact(text))).translate(_ANGLES)
    return _cut(_SUMMONS.sub("(at)", text), most)


_WORDS = {What.OPENED: "", What.ESCALATED: "ESCALATED to ", What.REMINDED: "STILL ", What.RESOLVED: ""}


def _known(details: Mapping[str, Any]) -> list[str]:
    known = [f"{plain(name, 60)}: {plain(value)}" for name, value in redact(details.get("evidence", {})).items()]
    # However much a provider said, what may be done comes through.
    lines = [_cut("\n".join(known), _MOST_EVIDENCE)] if known else []
    allowed = [plain(each, 100) for each in details.get("allowed", ())]
    if allowed:
        lines.append(f"possible now: {', '.join(allowed)}")
    return [*lines, *(f"look: {plain(each, 200)}" for each in details.get("look", ()))]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
