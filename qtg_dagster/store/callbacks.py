"""The callback outbox as its courier works on it: claimed like nodes are, one statement each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from qtg_dagster.domain.callbacks import ClaimedCallback, Outcome
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.domain.workers import Claimant
from qtg_dagster.store.database import OnDatabase
from qtg_dagster.store.statements import as_json, native


class CallbackOutbox(OnDatabase):
    """Callbacks: claimed, settled, given back."""

    async def claim(
        self,
        runner: Claimant,
        batch: int,
        *,
        per_receiver: int,
        longest_seconds: float = 60,
        in_work: Collection[int] = (),
        suspects: Collection[str] = (),
        suspect_room: int = 0,
    ) -> list[ClaimedCallback]:
        """Claim up to `batch` callbacks: of each movement the oldest that is not settled, receivers in turn.

        A receiver has at most `per_receiver` in flight over all runners, a suspect one has one, and this claim takes at
        most `suspect_room` for suspects. What the runner holds beside `in_work` it has lost, and may claim anew. What
        another holds for longer than an attempt takes, `longest_seconds`, takes no room of its receiver.
        """
        bound = {
            "runner_id": runner.runner_id,
            "network_class": runner.identity.network_class,
            "batch": batch,
            "per_receiver": per_receiver,
            "longest": float(longest_seconds),
            "in_work": list(in_work),
            "suspects": list(suspects),
            "suspect_room": suspect_room,
        }
        async with self._database.connection() as connection:
            rows = await (await connection.execute(native("claim_callbacks"), bound)).fetchall()
        return [
            ClaimedCallback(
                callback_id=row["id"],
                claim_epoch=row["claim_epoch"],
                request_id=row["request_id"],
                event_id=row["event_id"],
                event_type=row["event_type"],
                sequence=row["sequence"],
                url=row["callback_url"],
                receiver=row["receiver"],
                body=row["body"].encode(),
                timestamp=row["callback_timestamp"],
                nonce=row["callback_nonce"],
                attempts=row["attempts"],
            )
            for row in rows
        ]

    async def settle(self, runner_id: int, outcomes: Sequence[Outcome]) -> frozenset[int]:
        """Write what became of attempts in one commit; gives the ids of those that nobody else had taken over."""
        bound = {"runner_id": runner_id, "outcomes": as_json([_as_item(outcome) for outcome in outcomes])}
        async with self._database.connection() as connection:
            rows = await (await connection.execute(native("settle_callbacks"), bound)).fetchall()
        return frozenset(row["id"] for row in rows)

    async def release(self, runner_id: int, callback_ids: Collection[int]) -> None:
        """Give callbacks back as they were."""
        async with self._database.connection() as connection:
            await connection.execute(native("release_callbacks"), {"runner_id": runner_id, "ids": list(callback_ids)})

    async def waiting(self, network_class: str, horizon_seconds: float) -> int:
        """How many could be begun on now or within the horizon, counted up to a thousand."""
        bound = {"network_class": network_class, "horizon": horizon_seconds}
        async with self._database.connection() as connection:
            row = await (await connection.execute(native("count_callbacks"), bound)).fetchone()
        return int(row["waiting"]) if row else 0


def _as_item(outcome: Outcome) -> dict[str, Any]:
    callback, attempt, settlement = outcome.callback, outcome.attempt, outcome.settlement
    return {
        "id": callback.callback_id,
        "claim_epoch": callback.claim_epoch,
        "status": settlement.status,
        "attempts": settlement.attempts,
        "wait": settlement.wait_seconds,
        "last_status": attempt.status,
        "last_error": None if attempt.problem is None else redact_text(attempt.problem),
    }
