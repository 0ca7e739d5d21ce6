"""Named places where a crash test may kill, raise or hang; nothing at all when not armed.

Armed by the environment: `QTG_FAULT=boundary:action[:nth]`, e.g. `QTG_FAULT=submit_bytes_sent:kill:2`. The action is
`kill` (SIGKILL), `raise` (FaultInjected) or `hang` (the process stops until somebody continues it). With
`QTG_FAULT_MARK` naming a file, a line is durably appended there before a point acts: coverage is counted, not assumed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from enum import StrEnum


class FaultPoint(StrEnum):
    """The boundaries of the programme; each is passed by exactly the code it names."""

    CLAIM_COMMIT = "claim_commit"
    PREFLIGHT = "preflight"
    PREPARE_COMMIT = "prepare_commit"
    BEFORE_SIGN = "before_sign"
    SIGNED_UNSAVED = "signed_unsaved"
    SIGNED_SAVED = "signed_saved"
    SUBMIT_BYTES_SENT = "submit_bytes_sent"
    RESPONSE_UNCOMMITTED = "response_uncommitted"
    COMMIT_ACK_LOST = "commit_ack_lost"
    SUBMITTED_COMMIT = "submitted_commit"
    OBSERVE_CLAIM = "observe_claim"
    OBSERVE_RESPONSE = "observe_response"
    COMPLETE_ADVANCE_COMMIT = "complete_advance_commit"
    RECOVER_CLAIM = "recover_claim"
    RECOVER_RESPONSE = "recover_response"
    NONCE_RESERVE = "nonce_reserve"
    NONCE_RELEASE = "nonce_release"
    NONCE_FILL_ORDERED = "nonce_fill_ordered"
    NONCE_FILL_PREPARED = "nonce_fill_prepared"
    NONCE_FILL_SENT = "nonce_fill_sent"
    APPROVE = "approve"
    EXPIRE = "expire"
    CALLBACK_CLAIM = "callback_claim"
    CALLBACK_SENT_UNSAVED = "callback_sent_unsaved"
    AUDIT_PROMOTE = "audit_promote"
    CYCLE_INSERT = "cycle_insert"
    TRANSFER_STORED = "transfer_stored"
    TRANSFER_MOVEMENT_MADE = "transfer_movement_made"
    TRANSFER_BEGUN = "transfer_begun"
    TRANSFER_FOLLOWED = "transfer_followed"
    RECORD_READ = "record_read"
    RECORD_WRITTEN = "record_written"
    RECORD_COMMITTED = "record_committed"


class FaultInjected(Exception):
    """Raised by an armed fault point."""


class FaultAction(StrEnum):
    """What an armed fault point does."""

    KILL = "kill"
    RAISE = "raise"
    HANG = "hang"


class _Armed:
    """One fault point that is to act at its nth passing."""

    def __init__(self, text: str, mark: str = "") -> None:
        point, _, rest = text.partition(":")
        action, _, nth = rest.partition(":")
        self.point = FaultPoint(point)
        self.action = FaultAction(action)
        self.left = int(nth or "1")
        self._mark = mark
        self._lock = threading.Lock()

    def passes(self, point: FaultPoint) -> bool:
        if point is not self.point:
            return False
        with self._lock:
            self.left -= 1
            return self.left == 0

    def mark(self) -> None:
        """Leave proof that the point was reached, before it acts."""
        if not self._mark:
            return
        descriptor = os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, f"{self.point} {self.action} {os.getpid()} {time.time():.6f}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read(spec: str, mark: str) -> _Armed | None:
    return _Armed(spec, mark) if spec else None


_armed = _read(os.environ.get("QTG_FAULT", ""), os.environ.get("QTG_FAULT_MARK", ""))


def arm(spec: str, mark: str = "") -> None:
    """Arm as the environment would, for a process that was forked after this module was read; empty disarms."""
    global _armed
    _armed = _read(spec, mark)


def fault_point(point: FaultPoint) -> None:
    """Pass a named boundary; acts only when this process was started with it armed."""
    if _armed is None or not _armed.passes(point):
        return
    _armed.mark()
    match _armed.action:
        case FaultAction.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case FaultAction.HANG:
            os.kill(os.getpid(), signal.SIGSTOP)
        case FaultAction.RAISE:
            raise FaultInjected(point.value)
