"""Places where a test may kill the exchange: `QTG_EXCHANGE_KILL_AT=payout_stored[:nth]`; nothing when unset."""

from __future__ import annotations

import os
import signal
from enum import StrEnum


class CrashPoint(StrEnum):
    """The boundaries where a venue could pay twice, or not at all."""

    WITHDRAWAL_RECORDED = "withdrawal_recorded"
    PAYOUT_SIGNED = "payout_signed"
    PAYOUT_STORED = "payout_stored"
    PAYOUT_BROADCAST = "payout_broadcast"
    PAYOUT_MINED = "payout_mined"
    PAYOUT_SETTLED = "payout_settled"
    DEPOSIT_SEEN = "deposit_seen"
    DEPOSIT_CREDITED = "deposit_credited"


_passed: dict[CrashPoint, int] = {}


def crash_point(point: CrashPoint) -> None:
    """Pass a boundary; the armed one kills this process at its nth passing."""
    armed, _, nth = os.environ.get("QTG_EXCHANGE_KILL_AT", "").partition(":")
    if armed != point:
        return
    _passed[point] = _passed.get(point, 0) + 1
    if _passed[point] == int(nth or "1"):
        os.kill(os.getpid(), signal.SIGKILL)
