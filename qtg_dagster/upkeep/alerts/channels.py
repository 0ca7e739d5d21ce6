"""Channels: apprise in threads with a time limit, and no word of a URL in anything that is written down.

apprise blocks, and a thread cannot be ended from outside: one that hangs is left alone, and counts against its channel.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from qtg_dagster.domain.alert_messages import Message
from qtg_dagster.domain.alerts import Severity
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.redaction import REDACTED, redact_text
from qtg_dagster.inventory import ChannelEntry
from qtg_dagster.secret import Secret

if TYPE_CHECKING:
    from apprise import Apprise, AppriseAsset, NotifyBase

#: Sends of one channel that may hang before no other is begun.
MOST_HANGING = 2
#: They write down URLs, headers or bodies at their lower levels; apprise at any.
_TALKATIVE = ("apprise", "urllib3", "requests_oauthlib", "oauthlib", "slixmpp", "paho")
_MOST_REASON = 300
#: apprise's plug-in for PagerDuty; by itself it opens another incident for every message, good news too.
_PAGER = "NotifyPagerDuty"
#: Pieces of a URL that are long enough to be worth hiding, and would not hide half of a sentence.
_LEAST_PIECE = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a message: taken, or why not."""

    taken: bool
    reason: str = ""


class Channel:
    """One named way to people."""

    def __init__(self, name: str, service: Apprise, pieces: tuple[str, ...]) -> None:
        self.name = name
        self._service = service
        #: Whether it keeps an incident for each alert: then each is told alone, and its end ends the incident.
        self.keeps_incidents = type(service[0]).__name__ == _PAGER
        self._pieces = pieces
        self._threads: list[threading.Thread] = []

    async def send(self, message: Message, timeout_seconds: float) -> Answer:
        """Send one message; says after that time at the latest what became of it. Raises nothing of the channel's.

        A message that took too long may still arrive.
        """
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= MOST_HANGING:
            return Answer(False, f"{len(self._threads)} earlier messages still hang")
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()

        def report(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        thread = threading.Thread(
            target=_in_thread,
            args=(lambda: self._notify(message), loop, report),
            name=f"channel {self.name}",
            daemon=True,  # a channel that hangs keeps no process from ending
        )
        self._threads.append(thread)
        thread.start()
        try:
            return await asyncio.wait_for(answered, timeout_seconds)
        except TimeoutError:
            return Answer(False, f"no answer within {timeout_seconds:.0f} s")

    def _notify(self, message: Message) -> Answer:
        from apprise import NotifyFormat, NotifyType

        kind = NotifyType.SUCCESS if message.good_news else NotifyType(_COLOURS[message.severity])
        try:
            result = self._service_for(message).notify(
                title=message.title, body=message.body, notify_type=kind, body_format=NotifyFormat.TEXT
            )
        except Exception as error:  # noqa: BLE001 - whatever a plug-in throws: its text may hold the URL
            return Answer(False, f"apprise failed: {type(error).__name__}")
        if result:
            return Answer(True)
        logs = [entry.message for service in result for attempt in service for entry in attempt.logs]
        return Answer(False, self._hidden("; ".join(logs) or "apprise did not deliver it and says no reason"))

    def _service_for(self, message: Message) -> Apprise:
        if not self.keeps_incidents:
            return self._service
        from apprise import Apprise

        pager: Any = copy.copy(self._service[0])
        # Good news resolves the incident of this key; everything else opens it, or adds to it.
        pager.action, pager.dedup = "map", sha256(message.key.encode()).hexdigest()
        return Apprise(pager, asset=self._service.asset)

    def _hidden(self, text: str) -> str:
        return redact_text(" ".join(_hide(text, self._pieces).split()))[:_MOST_REASON]


class _Hiding(logging.Filter):
    """Takes every piece of a channel's URL out of what apprise logs, whoever listens."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: frozenset[str] = frozenset()

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _hide(record.getMessage(), sorted(self.pieces, key=len, reverse=True)), None
        record.exc_info = record.exc_text = record.stack_info = None
        return True


_HIDING = _Hiding()


_COLOURS = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}


def open_channel(name: str, entry: ChannelEntry) -> Channel:
    """A channel that apprise can use; raises `ConfigurationError` with the channel's name and never its URL."""
    url = entry.url.read(f"notifications.{name}.url")
    pieces = _pieces(url)
    _silence(pieces)
    from apprise import Apprise, AppriseAsset

    # One service, no limit of time of apprise's own: it runs in our thread then, and not in a pool that all share.
    asset = AppriseAsset(service_timeout=0, async_mode=False)
    service = Apprise(asset=asset)
    plugin = _instantiate(url, asset)
    if plugin is None or not service.add(plugin):
        raise ConfigurationError(
            f"notifications.{name}.url: apprise cannot use it; does it know the scheme, and is it complete?"
        )
    return Channel(name, service, pieces)


def check_channels(channels: Mapping[str, ChannelEntry]) -> None:
    """Raise `ConfigurationError` naming every channel that cannot be used."""
    wrong: list[str] = []
    for name, entry in channels.items():
        try:
            open_channel(name, entry)
        except ConfigurationError as error:
            wrong.append(str(error))
    if wrong:
        raise ConfigurationError("; ".join(wrong))


def _instantiate(url: Secret, asset: AppriseAsset) -> NotifyBase | None:
    from apprise import Apprise

    try:
        return Apprise.instantiate(url.expose(), asset=asset)
    except Exception:  # noqa: BLE001 - a plug-in's own checks; what they say may hold the URL
        return None


def _in_thread(work: Callable[[], Answer], loop: asyncio.AbstractEventLoop, report: Callable[[Answer], None]) -> None:
    answer = work()
    try:
        loop.call_soon_threadsafe(report, answer)
    except RuntimeError:
        # The loop has ended meanwhile: nobody waits for the answer, and the message's claim runs out.
        return


def _silence(pieces: Sequence[str]) -> None:
    _HIDING.pieces |= frozenset(pieces)
    for name in _TALKATIVE:
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.setLevel(logging.WARNING)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
    logging.getLogger("apprise").addFilter(_HIDING)


def _hide(text: str, pieces: Sequence[str]) -> str:
    for piece in pieces:
        text = text.replace(piece, REDACTED)
    return text


def _pieces(url: Secret) -> tuple[str, ...]:
    parts = re.split(r"[/:@?&=#,;+\s]+", url.expose())
    found = {piece for part in parts for piece in (part, unquote(part)) if len(piece) >= _LEAST_PIECE}
    return (url.expose(), *sorted(found, key=len, reverse=True))
