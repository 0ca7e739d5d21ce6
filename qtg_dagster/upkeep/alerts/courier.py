"""The notification dispatcher: looks for what is the matter, plans messages, and sends each until it arrives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from qtg_dagster.domain.alert_messages import Message, digest_of, message_of
from qtg_dagster.domain.alerts import NOTIFICATION_DISPATCHER, Outcome
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.workers import Claimant
from qtg_dagster.inventory import ChannelEntry
from qtg_dagster.settings import Settings
from qtg_dagster.store.alert_deliveries import Claimed, claim, count_waiting, settle
from qtg_dagster.store.alerts import earlier_episodes, read_clock, standing_alerts
from qtg_dagster.store.database import Database
from qtg_dagster.upkeep.alerts.channels import Answer, Channel, open_channel
from qtg_dagster.upkeep.alerts.detection import alert_policy, look_for_alerts, seconds_since_look, write_down
from qtg_dagster.upkeep.alerts.looking import Source
from qtg_dagster.upkeep.alerts.planning import Seen, observations, openings, words
from qtg_dagster.upkeep.alerts.sources import SOURCES
from qtg_dagster.upkeep.alerts.telling import tell_alerts

log = structlog.get_logger("qtg.alerts")

#: So many messages due for one channel at once go as one.
TOGETHER = 4
MOST_TOGETHER = 20
#: Between two looks, whoever asks.
LOOK_SECONDS = 2.0
#: A claim outlasts the send by this; then whoever sent is taken for dead.
LEASE_SLACK_SECONDS = 10.0
MOST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Looked:
    at: float
    waiting: int


class NotificationCourier:
    """Carries alerts to people. With MG_NOTIFY_ENABLED off it does nothing: others still find and list alerts."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        sources: Sequence[Source] = SOURCES,
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._database = database
        self._settings = settings
        self._sources = sources
        self._look_seconds = look_seconds
        self._entries: Mapping[str, ChannelEntry] = settings.inventory.notifications if settings.notify_enabled else {}
        self._channels: dict[str, Channel] = {}
        self._sends: dict[str, asyncio.Task[None]] = {}
        self._next_look = float("-inf")
        self._looked = _Looked(float("-inf"), 0)

    @property
    def worker(self) -> str:
        return NOTIFICATION_DISPATCHER

    @property
    def interval_seconds(self) -> float:
        return self._settings.notify_interval_seconds

    @property
    def in_flight(self) -> int:
        return len(self._sends)

    async def work(self, claimant: Claimant, more: asyncio.Event) -> int:  # noqa: ARG002
        """Begin to send what is due, then look and plan, then begin on what was planned; the sends begun."""
        if not self._settings.notify_enabled:
            return 0
        begun = await self._begin(more)
        await self._look_and_plan()
        return begun + await self._begin(more)

    async def finish(self, seconds: float) -> None:
        """Let sends end within so long. What is cut off may have arrived: it is sent again when its claim runs out."""
        if not self._sends:
            return
        _, late = await asyncio.wait(self._sends.values(), timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def waiting(self, horizon_seconds: float = 0) -> int:
        """Channels with something to send, and changes that nobody has written down or told yet."""
        if not self._settings.notify_enabled:
            return 0
        async with self._database.transaction() as tx:
            due = await count_waiting(tx, self._settings.network_class, list(self._entries), horizon_seconds)
        return due or await self._changes()

    async def _changes(self) -> int:
        now = time.monotonic()
        if now - self._looked.at < self._look_seconds:
            return self._looked.waiting
        seen = None
        if self._look_seconds == 0 or seconds_since_look(self._settings) > self.interval_seconds:
            seen = await look_for_alerts(self._database, self._settings, self._sources)
        self._looked = _Looked(now, await self._untold(seen))
        return self._looked.waiting

    async def _untold(self, seen: Seen | None) -> int:
        """Words that are due, and what was seen and is not written down."""
        network_class, policy = self._settings.network_class, alert_policy(self._settings)
        async with self._database.transaction() as tx:
            standing = await standing_alerts(tx, network_class)
            earlier = await earlier_episodes(tx, network_class)
            now = await read_clock(tx)
        due = len(words(standing, earlier, now, policy))
        if seen is None:
            return due
        moved = [one for one in observations(seen, standing, seen.at, policy) if one.episode != one.alert.episode]
        return len(openings(seen, standing)) + len(moved) + due

    async def _look_and_plan(self) -> None:
        now = time.monotonic()
        seen = None
        if now >= self._next_look:
            seen = await look_for_alerts(self._database, self._settings, self._sources)
            self._next_look = now + self._look_seconds
        async with self._database.transaction() as tx:
            if seen is not None:
                await write_down(tx, self._settings, seen)
            await tell_alerts(tx, self._settings, self._entries)
        self._looked = _Looked(now, 0)

    async def _begin(self, more: asyncio.Event) -> int:
        begun = 0
        for name in self._entries:
            if name in self._sends:
                continue
            async with self._database.transaction() as tx:
                claimed = await claim(
                    tx,
                    self._settings.network_class,
                    name,
                    lease_seconds=self._settings.notify_send_timeout_seconds + LEASE_SLACK_SECONDS,
                    together=TOGETHER,
                    most=MOST_TOGETHER,
                )
            if claimed:
                self._sends[name] = asyncio.create_task(self._carry(name, claimed, more), name=f"send to {name}")
                begun += 1
        return begun

    async def _carry(self, name: str, claimed: Sequence[Claimed], more: asyncio.Event) -> None:
        """Send, then say what became of it; whoever dies in between sends again."""
        try:
            channel = await self._open(name)
            apart = isinstance(channel, Channel) and channel.keeps_incidents
            left = [[one] for one in claimed] if apart else [list(claimed)]
            until = time.monotonic() + self._settings.notify_send_timeout_seconds
            while left:
                answer = await self._send(channel, self._message(left[0]))
                if not answer.taken:
                    log.warning("message not taken", channel=name, tries=left[0][0].attempts, reason=answer.reason)
                # What comes after one that failed, or would outlast the claim, is not tried now.
                ends = not answer.taken or time.monotonic() > until
                await self._settle(left.pop(0), answer)
                if ends:
                    await self._settle([one for part in left for one in part], Answer(False, answer.reason))
                    break
        except Exception:  # not known to have been sent: it is due again when the claim runs out
            log.exception("message not settled", channel=name)
        finally:
            del self._sends[name]
            more.set()

    async def _settle(self, sent: Sequence[Claimed], answer: Answer) -> None:
        outcome = Outcome.SENT if answer.taken else Outcome.PENDING
        async with self._database.transaction() as tx:
            for one in sent:
                pause = min(2.0 ** min(one.attempts, 16), MOST_PAUSE_SECONDS)
                await settle(tx, one, outcome, error=answer.reason or None, pause_seconds=pause)

    async def _open(self, name: str) -> Channel | Answer:
        """The channel, or what is to be said of each message because it cannot be used."""
        if name not in self._channels:
            try:
                self._channels[name] = await asyncio.to_thread(open_channel, name, self._entries[name])
            except ConfigurationError as error:
                return Answer(False, str(error))
        return self._channels[name]

    async def _send(self, channel: Channel | Answer, message: Message) -> Answer:
        if isinstance(channel, Answer):
            return channel
        return await channel.send(message, self._settings.notify_send_timeout_seconds)

    def _message(self, claimed: Sequence[Claimed]) -> Message:
        runbook = self._settings.notify_runbook_url
        if len(claimed) == 1:
            [one] = claimed
            return message_of(one.what, one.alert, runbook=runbook, web_url=self._settings.notify_web_url)
        return digest_of([(one.what, one.alert) for one in claimed], runbook=runbook)
