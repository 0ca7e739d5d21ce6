"""What the suites of all venues have to know of one: how it is opened at the stand-in, and its words for a submit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from qtg_dagster.lanes.cex.venue import Venue, load_venue
from qtg_dagster.sandbox.exchange.dialect import known_wires

API_KEY = "key-of-the-desk"
API_SECRET = "secret-of-the-desk"
DESTINATION = "0x" + "ab" * 20


@dataclass(frozen=True)
class Bench:
    """One wire. A new venue brings a module `bench_<wire>.py` with a `BENCH`, and every suite here runs over it.

    `doubtful` are bodies that a venue that executed may answer with: an HTTP status and JSON. None may end in REJECTED.
    `refusal` makes the body in which the venue gives a code, `refusal_status` the status that it comes under.
    """

    wire: str
    network: str  # the stand-in's name of Ethereum, which is also the inventory's
    refusal: Any
    odd_status: Mapping[str, Any]  # fields of a row in a status that nobody knows
    refusal_status: int = 200
    doubtful: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    stand_in: Mapping[str, Any] = field(default_factory=dict)  # fields of the stand-in's venue beside the usual
    entry: Mapping[str, Any] = field(default_factory=dict)  # fields of the inventory's venue beside the usual
    beneficiary: Mapping[str, Any] = field(default_factory=dict)  # in the venue's names, where it takes one
    secret: str = API_SECRET
    passphrase: str | None = None

    @property
    def venue(self) -> Venue:
        return load_venue(self.wire)


def benches() -> list[Bench]:
    """A bench for every wire that the stand-in speaks and an adapter is there for: one without fails here."""
    found = []
    for wire in known_wires():
        load_venue(wire)
        bench: Bench = import_module(f"tests.lanes.cex.venues.bench_{wire}").BENCH
        assert bench.wire == wire
        found.append(bench)
    return found
