"""Named places where a crash test may kill, raise or hang; nothing at all when not armed.

Armed by the environment: `QTG_FAULT=boundary:action[:nth]`, e.g. `QTG_FAULT=submit_bytes_sent:kill:2`.
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
    APPROVE = "approve"
    EXPIRE = "expire"
    CALLBACK_CLAIM = "callback_claim"
    CALLBACK_SENT_UNSAVED = "callback_sent_unsaved"
    AUDIT_PROMOTE = "audit_promote"
    CYCLE_INSERT = "cycle_insert"


class FaultInjected(Exception):
    """Raised by an armed fault point."""


class _Armed:
    """One fault point that is to act at its nth passing."""

    def __init__(self, text: str) -> None:
        point, _, rest = text.partition(":")
        action, _, nth = rest.partition(":")
        self.point = FaultPoint(point)
        self.action = action
        self.left = int(nth or "1")
        self._lock = threading.Lock()

    def passes(self, point: FaultPoint) -> bool:
        if point is not self.point:
            return False
        with self._lock:
            self.left -= 1
            return self.left == 0


_spec = os.environ.get("QTG_FAULT", "")
_armed = _Armed(_spec) if _spec else None


def fault_point(point: FaultPoint) -> None:
    """Pass a named boundary; acts only when this process was started with it armed."""
    if _armed is None or not _armed.passes(point):
        return
    if _armed.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif _armed.action == "hang":
        time.sleep(float(os.environ.get("QTG_FAULT_HANG_SECONDS", "3600")))
    else:
        raise FaultInjected(point.value)
