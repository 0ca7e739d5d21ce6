"""What the suites of all venues have to know of one: how it is opened at the stand-in, and its words for a submit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.lanes.cex.venue import Venue, load_venue
from qtg_dagster.sandbox.exchange.dialect import known_wires

API_KEY = "key-of-the-desk"
API_SECRET = "secret-of-the-desk"
DESTINATION = "0x" + "ab" * 20


class Lost(StrEnum):
    """What becomes of a withdrawal that was executed, and whose answer was lost."""

    FOUND = "found"
    HANDED_OVER = "handed over"  # its row does not show enough to be ours for certain: a person gets it, named


@dataclass(frozen=True)
class Bench:
    """One wire. A new venue brings a module `bench_<wire>.py` with a `BENCH`, and every suite here runs over it.

    `doubtful` are bodies that a venue that executed may answer with: an HTTP status and JSON. None may end in
    REJECTED. `refusal` makes the body in which the venue gives a code, `refusal_status` the status that it comes
    under. `lost` is what is expected of a lost answer. `tells_rights`, `tells_fee` and `tells_withdrawing` say whether
    the venue tells what a key may do, what a withdrawal will cost, and what is on its way out; `lists_unproven`
    whether its address book shows addresses that may not be paid yet. `undone` is its one word for all that was given
    back. `lost_deposit` is the stand-in's status of a deposit whose word here says that it will not be credited; None
    = none. `deposits_have_ids` is false where the adapter has to make an id out of what a deposit is.
    """

    wire: str
    network: str  # the stand-in's name of Ethereum, which is also the inventory's
    refusal: Any
    odd_status: Mapping[str, Any]  # fields of a row in a status that nobody knows
    refusal_status: int = 200
    lost_deposit: str | None = "rejected"
    doubtful: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    stand_in: Mapping[str, Any] = field(default_factory=dict)  # fields of the stand-in's venue beside the usual
    entry: Mapping[str, Any] = field(default_factory=dict)  # fields of the inventory's venue beside the usual
    beneficiary: Mapping[str, Any] = field(default_factory=dict)  # in the venue's names, where it takes one
    secret: str = API_SECRET
    passphrase: str | None = None
    lost: Lost = Lost.FOUND
    tells_rights: bool = True
    tells_fee: bool = True
    tells_withdrawing: bool = True
    lists_unproven: bool = True
    undone: str | None = None
    deposits_have_ids: bool = True

    @property
    def venue(self) -> Venue:
        return load_venue(self.wire)

    def accounts_for(self, answer: ExecutionResult, made: Mapping[str, Any]) -> bool:
        """Whether an answer tells of this withdrawal in the venue's book as it can here, and of no other."""
        if self.lost is Lost.FOUND:
            found = answer.provider_refs.get("exchange_withdrawal_id")
            return (answer.status, found) == (ResultStatus.COMPLETED, made["id"])
        return (
            (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "UNPROVEN_ON_RECORD")
            and [row["uuid"] for row in answer.evidence["rows"]] == [made["id"]]
            and made["id"] in answer.evidence["operator"]
        )


def benches() -> list[Bench]:
    """A bench for every wire that the stand-in speaks and an adapter is there for: one without fails here."""
    found = []
    for wire in known_wires():
        load_venue(wire)
        bench: Bench = import_module(f"tests.lanes.cex.venues.bench_{wire}").BENCH
        assert bench.wire == wire
        found.append(bench)
    return found
