"""Cells of the callbacks' boundaries: whoever dies, hangs or wakes too late, owners are told everything, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtg_dagster.faults import FaultPoint
from tests.crash.bench import Bench
from tests.crash.provider.receiver import read_arrivals

TELLING = frozenset({FaultPoint.CALLBACK_CLAIM, FaultPoint.CALLBACK_SENT_UNSAVED})
_SECONDS = 20.0


async def claimed(bench: Bench) -> dict[int, tuple[int, int]]:
    """Callback -> claimant and epoch, of those that are claimed."""
    rows = await bench.rows(
        "SELECT id, runner_id, claim_epoch FROM qtg.movement_callback_outbox WHERE runner_id IS NOT NULL"
    )
    return {row["id"]: (row["runner_id"], row["claim_epoch"]) for row in rows}


async def others_are_told(bench: Bench, his: Mapping[int, tuple[int, int]]) -> list[str]:
    """Waits until all movements but those that somebody hangs on are told of; gives what was taken from him."""

    async def told() -> bool:
        left = await bench.rows(
            "SELECT 1 AS one FROM qtg.movement_callback_outbox WHERE status = 'pending' AND request_id NOT IN "
            "(SELECT request_id FROM qtg.movement_callback_outbox WHERE id = ANY(%s))",
            list(his),
        )
        return not left

    await bench.until(told, "nobody is told while one courier hangs", _SECONDS)
    now = await claimed(bench)
    return [f"O5: callback {key} was taken from a runner that lives" for key in his if now.get(key) != his[key]]


async def all_is_told(bench: Bench) -> None:
    """Waits until nothing is left to tell."""

    async def told() -> bool:
        return not await bench.rows(
            "SELECT 1 AS one FROM qtg.movement_callback_outbox WHERE status <> 'delivered' LIMIT 1"
        )

    await bench.until(told, "a callback is never delivered", _SECONDS)


async def judge_telling(bench: Bench) -> list[str]:
    """O6 at the receiver: what counts as delivered arrived, as it was written, signed, and first in its order."""
    rows = await bench.rows(
        "SELECT event_id::text AS event_id, request_id::text AS request_id, sequence, status, "
        "encode(sha256(convert_to(body, 'UTF8')), 'hex') AS digest FROM qtg.movement_callback_outbox"
    )
    written: dict[str, dict[str, Any]] = {row["event_id"]: row for row in rows}
    movements = {row["request_id"] for row in rows}
    arrivals = [each for each in read_arrivals(bench.stage.owners_book) if each.request_id in movements]
    wrong: list[str] = []
    first: dict[str, list[int]] = {}
    seen: set[str] = set()
    for each in arrivals:
        row = written.get(each.event_id)
        if row is None or (row["digest"], row["sequence"]) != (each.digest, each.sequence):
            wrong.append(f"O6: {each} is not what was written")
        if not each.verified:
            wrong.append(f"O6: {each} does not verify")
        if each.event_id not in seen:
            first.setdefault(each.request_id, []).append(each.sequence)
        seen.add(each.event_id)
    wrong += [
        f"O6: movement {request_id} was told in the order {order}"
        for request_id, order in first.items()
        if order != list(range(1, len(order) + 1))
    ]
    wrong += [
        f"O6: callback {event_id} counts as delivered and never arrived"
        for event_id, row in written.items()
        if row["status"] == "delivered" and event_id not in seen
    ]
    return wrong
