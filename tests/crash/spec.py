"""What a worker is told when it is hatched."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self


class Role(StrEnum):
    """What a worker does with its life."""

    DRAINS = "drains"  # dispatch, observe and recover, as drains
    PASSES = "passes"  # the same as bare passes, which need no slot: somebody else's machine
    APPROVE = "approve"  # approves everything that waits
    EXPIRE = "expire"  # calls off what was not approved in time
    PROMOTE = "promote"  # promotes audit entries, few at a time
    CYCLE = "cycle"  # serves one window after another
    DELIVER = "deliver"  # delivers callbacks, as a bare courier that needs no slot
    REAP = "reap"  # gives unused nonces back


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """Everything a worker needs, in JSON's words."""

    role: str
    database_url: str
    bank_socket: str
    log: str
    inventory_file: str = ""
    callbacks_file: str = ""  # an inventory that names nothing but the secret of callbacks
    fault: str = ""
    mark: str = ""
    clock_offset_seconds: float = 0.0
    concurrency: int = 32

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        return cls(**document)

    def document(self) -> dict[str, Any]:
        return asdict(self)
