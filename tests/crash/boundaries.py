"""Which cells there are: boundaries x lanes x actions, and why a boundary does not concern a lane."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from qtg_dagster.faults import FaultAction, FaultPoint

P = FaultPoint


class Lane(StrEnum):
    """Where money moves, or is looked for. DESK is what no executor takes part in."""

    BANK = "bank"
    CEX_WITHDRAWAL = "cex_withdrawal"
    CEX_DEPOSIT = "cex_deposit"
    EVM_TRANSFER = "evm_transfer"
    EVM_OBSERVE = "evm_observe"
    DESK = "desk"


#: Lanes that need the sandbox's chain and exchange; they share one treasury, so one such cell runs at a time.
WORLD_LANES = frozenset({Lane.CEX_WITHDRAWAL, Lane.CEX_DEPOSIT, Lane.EVM_TRANSFER, Lane.EVM_OBSERVE})

_PEOPLE = "no lane takes part in it; see the lane desk"
_NO_SIGNER = "the venue's key signs requests, not a signer of ours"
_READS_ONLY = "only reads, so nothing is signed or sent"
_NO_NONCE = "has no nonces"
_TRANSFERS = "killed at each by tests/engine/test_transfer_deaths.py, which asks how many movements there are"
_ONLY_DESK = "an executor's work; see the other lanes"
_DESK_POINTS = frozenset(
    {P.APPROVE, P.EXPIRE, P.CYCLE_INSERT, P.AUDIT_PROMOTE, P.CALLBACK_CLAIM, P.CALLBACK_SENT_UNSAVED}
)
#: Killed at each of them in tests/nonces/test_nonce_crashes.py.
_FILLING = "a person's action on a nonce that no lane's worker will use"
_FILLING_POINTS = frozenset({P.NONCE_FILL_ORDERED, P.NONCE_FILL_PREPARED, P.NONCE_FILL_SENT})
_TRANSFER_POINTS = frozenset({P.TRANSFER_STORED, P.TRANSFER_MOVEMENT_MADE, P.TRANSFER_BEGUN, P.TRANSFER_FOLLOWED})
#: Killed at each of them in tests/treasury/test_record_deaths.py.
_RECORD = "reads a venue's record and moves nothing"
_RECORD_POINTS = frozenset({P.RECORD_READ, P.RECORD_WRITTEN, P.RECORD_COMMITTED})
_NONCE_POINTS = frozenset({P.NONCE_RESERVE, P.NONCE_RELEASE})
#: Boundaries of no lane's worker -> the test that kills at each of them.
ELSEWHERE = {
    **dict.fromkeys(_FILLING_POINTS, "tests/nonces/test_nonce_crashes.py"),
    **dict.fromkeys(_TRANSFER_POINTS, "tests/engine/test_transfer_deaths.py"),
    **dict.fromkeys(_RECORD_POINTS, "tests/treasury/test_record_deaths.py"),
}

_NOT: dict[Lane, dict[FaultPoint, str]] = {
    Lane.BANK: dict.fromkeys(_NONCE_POINTS, _NO_NONCE),
    Lane.CEX_WITHDRAWAL: {P.BEFORE_SIGN: _NO_SIGNER, **dict.fromkeys(_NONCE_POINTS, _NO_NONCE)},
    Lane.CEX_DEPOSIT: {
        P.BEFORE_SIGN: _READS_ONLY,
        P.SUBMIT_BYTES_SENT: _READS_ONLY,
        **dict.fromkeys(_NONCE_POINTS, _READS_ONLY),
    },
    Lane.EVM_TRANSFER: {},
    Lane.EVM_OBSERVE: {
        P.BEFORE_SIGN: _READS_ONLY,
        P.SUBMIT_BYTES_SENT: _READS_ONLY,
        **dict.fromkeys(_NONCE_POINTS, _READS_ONLY),
    },
}


def why_not(lane: Lane, point: FaultPoint) -> str | None:
    """Why the boundary does not concern the lane; None when it does."""
    if point in _FILLING_POINTS:
        return _FILLING
    if point in _TRANSFER_POINTS:
        return _TRANSFERS
    if point in _RECORD_POINTS:
        return _RECORD
    if lane is Lane.DESK:
        return None if point in _DESK_POINTS else _ONLY_DESK
    if point in _DESK_POINTS:
        return _PEOPLE
    return _NOT[lane].get(point)


@dataclass(frozen=True, slots=True)
class Cell:
    """One case: what happens to a worker at one boundary of one lane."""

    lane: Lane
    point: FaultPoint
    action: FaultAction

    def __str__(self) -> str:
        return f"{self.lane}/{self.point}/{self.action}"


def all_cells() -> tuple[Cell, ...]:
    """Every applicable cell, in the order of the programme."""
    return tuple(
        Cell(lane, point, action)
        for lane in Lane
        for point in FaultPoint
        for action in FaultAction
        if why_not(lane, point) is None
    )
