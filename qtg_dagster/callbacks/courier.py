"""The courier of callbacks: many receivers side by side, each movement's events in order, a slow receiver alone."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import structlog

from qtg_dagster.callbacks.recording import OutcomeRecorder
from qtg_dagster.domain.callbacks import CALLBACK_DISPATCHER, Attempt, ClaimedCallback, Outcome, Verdict, settle
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.workers import Claimant
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.settings import Settings
from qtg_dagster.store.callbacks import CallbackOutbox
from qtg_dagster.store.database import Database

if TYPE_CHECKING:
    from qtg_dagster.callbacks.sending import CallbackSender

log = structlog.get_logger("qtg.callbacks")

#: An attempt that takes longer makes its receiver a suspect.
_SLOW_SECONDS = 1.0
#: What follows upon an attempt's end until its outcome is written, at the longest.
_AFTER_SECONDS = 5.0


class CallbackCourier:
    """Delivers the callbacks of one network class; a `Courier`."""

    worker = CALLBACK_DISPATCHER

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        build_sender: Callable[[Settings], CallbackSender] | None = None,
    ) -> None:
        self._outbox = CallbackOutbox(database)
        self._outcomes = OutcomeRecorder(self._outbox)
        self._settings = settings
        self._build_sender = build_sender or build_callback_sender
        self._sender: CallbackSender | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._begun: dict[int, tuple[str, float]] = {}
        self._troubled: set[str] = set()
        self._runner_id = 0
        self._finishing = False

    @property
    def interval_seconds(self) -> float:
        return self._settings.callback_dispatch_interval_seconds

    @property
    def in_flight(self) -> int:
        return len(self._tasks)

    async def waiting(self, horizon_seconds: float = 0) -> int:
        """How many callbacks are due now or within the horizon."""
        return await self._outbox.waiting(self._settings.network_class, horizon_seconds)

    async def work(self, claimant: Claimant, more: asyncio.Event) -> int:
        """Begin on what is due, as far as there is room.

        Raises `ConfigurationError` when something is due and there is no secret to sign it with: it waits.
        """
        room = self._settings.callback_concurrency - len(self._tasks)
        if room <= 0 or self._finishing:
            return 0
        sender = await self._ready_sender()
        if sender is None:
            return 0
        self._runner_id = claimant.runner_id
        suspects, flying = self._suspects()
        claimed = await self._outbox.claim(
            claimant,
            room,
            per_receiver=self._settings.callback_concurrency_per_receiver,
            longest_seconds=self._settings.callback_timeout_seconds + _AFTER_SECONDS,
            in_work=list(self._tasks),
            suspects=suspects,
            suspect_room=max(0, self._settings.callback_concurrency // 2 - flying),
        )
        if claimed:
            fault_point(FaultPoint.CALLBACK_CLAIM)
        for callback in claimed:
            self._begun[callback.callback_id] = (callback.receiver, time.monotonic())
            task = asyncio.create_task(self._deliver(sender, callback), name=f"callback {callback.event_id}")
            self._tasks[callback.callback_id] = task
            task.add_done_callback(partial(self._ended, callback.callback_id, more))
        return len(claimed)

    async def finish(self, seconds: float) -> None:
        """Let what is in flight end within so long, and give back the rest: it may have arrived, and is sent again."""
        self._finishing = True
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
        left = dict(self._tasks)
        for task in left.values():
            task.cancel()
        await asyncio.gather(*left.values(), return_exceptions=True)
        if self._sender is not None:
            await self._sender.close()
        if left:
            await self._outbox.release(self._runner_id, left)

    async def _ready_sender(self) -> CallbackSender | None:
        if self._sender is None:
            try:
                self._sender = self._build_sender(self._settings)
            except ConfigurationError:
                if await self.waiting():
                    raise
        return self._sender

    async def _deliver(self, sender: CallbackSender, callback: ClaimedCallback) -> None:
        try:
            attempt = await sender.send(callback)
            fault_point(FaultPoint.CALLBACK_SENT_UNSAVED)
        except Exception as error:
            # Counted like any failed attempt: what breaks every time must not be sent again and again at once.
            log.exception("attempt at a callback broke off", event_id=callback.event_id)
            attempt = Attempt(Verdict.FAILED, problem=f"internal_error: {type(error).__name__}")
        if attempt.verdict is Verdict.FAILED:
            self._troubled.add(callback.receiver)
        else:
            self._troubled.discard(callback.receiver)  # it answers, whatever it says
        settlement = settle(
            callback,
            attempt,
            max_attempts=self._settings.callback_max_attempts,
            patience_seconds=self._settings.callback_retry_after_max_seconds,
        )
        if not await self._outcomes.record(self._runner_id, Outcome(callback, attempt, settlement)):
            log.warning("callback was taken over", event_id=callback.event_id, request=callback.request_id)
        elif attempt.problem:
            log.warning(
                "callback not delivered",
                event_id=callback.event_id,
                request=callback.request_id,
                receiver=callback.receiver,
                problem=attempt.problem,
                attempts=settlement.attempts,
                status=settlement.status.value,
            )

    def _suspects(self) -> tuple[list[str], int]:
        """Receivers that fail or take long, and how many attempts are out to them."""
        now = time.monotonic()
        slow = {receiver for receiver, since in self._begun.values() if now - since > _SLOW_SECONDS}
        suspects = slow | self._troubled
        flying = Counter(receiver for receiver, _ in self._begun.values())
        return sorted(suspects), sum(flying[receiver] for receiver in suspects)

    def _ended(self, key: int, more: asyncio.Event, task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        self._begun.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Still claimed by this runner, and in nobody's hands: the next look claims it anew.
            log.error("delivery of a callback broke off", exc_info=error)
        more.set()


def build_callback_sender(settings: Settings) -> CallbackSender:
    """A sender by these settings; raises `ConfigurationError` without a usable secret."""
    from qtg_dagster.callbacks.resolving import SystemResolver
    from qtg_dagster.callbacks.sending import CallbackSender, tls_of
    from qtg_dagster.callbacks.signing import SigningKeys

    return CallbackSender(
        SigningKeys(settings.inventory),
        settings.receiver_policy,
        SystemResolver(),
        timeout_seconds=settings.callback_timeout_seconds,
        tls=tls_of(settings),
    )
