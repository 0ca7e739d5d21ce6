"""A submit that was on its way for long must not arrive after recovery has looked and found nothing."""

from __future__ import annotations

import time
from collections import OrderedDict


class Investigated:
    """Idempotency keys that recovery has asked about, for as long as an older submit could still be let in.

    `keep_seconds` is twice the gate's window. No more keys come in that time than the gate has nonces.
    """

    def __init__(self, keep_seconds: float) -> None:
        self._keep = keep_seconds
        self._until: OrderedDict[str, float] = OrderedDict()

    def add(self, idempotency_key: str) -> None:
        """From now on the key's submit comes too late."""
        now = time.monotonic()
        while self._until and next(iter(self._until.values())) < now:
            self._until.popitem(last=False)
        self._until[idempotency_key] = now + self._keep
        self._until.move_to_end(idempotency_key)

    def __contains__(self, idempotency_key: str) -> bool:
        return idempotency_key in self._until
