"""What is told of a nonce and of its filling, and whether it may be filled."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.nonce_chain import FillOffer, Use
from qtg_dagster.domain.nonces import ChainView, FillKind, Judgement, UsedBy
from qtg_dagster.store.nonce_fillers import Filler
from qtg_dagster.store.nonce_records import NonceRecord
from qtg_dagster.upkeep.nonce_alarms import mined_after_all


@dataclass(frozen=True, slots=True)
class Judged:
    """A nonce as recorded, what its chain says, and what follows; `problem` says why the chain said nothing."""

    record: NonceRecord
    view: ChainView | None
    found: Judgement
    fillers: tuple[Filler, ...] = ()
    problem: str = ""

    @property
    def to_do(self) -> str:
        return mined_after_all(self.record) or self.found.to_do


@dataclass(frozen=True, slots=True)
class FillPlan:
    """What filling would sign; `goes_on` is the filler that stands already."""

    judged: Judged
    kind: FillKind
    offer: FillOffer | None = None
    goes_on: Filler | None = None


@dataclass(frozen=True, slots=True)
class Filling:
    """Where a filling stands."""

    filler: Filler
    use: Use | None = None

    @property
    def outbid(self) -> bool:
        """Whether it takes a dearer version: a block or another transaction under the nonce asks for more."""
        return self.use is None and bool(self.filler.evidence.get("outbid"))

    def told(self) -> str:
        if self.use is None:
            return f"{self.filler.told()}; it counts once a final block has it"
        if self.use.used_by is UsedBy.FILLER:
            return f"filled for good by {self.use.tx_hash}"
        whose = "the transaction that was signed first" if self.use.used_by is UsedBy.ORIGINAL else "another one"
        return f"not needed: {self.use.tx_hash}, {whose}, has it for good"


def permitted(judged: Judged, *, cancel: bool) -> FillKind:
    """What kind of filling is allowed now; raises `Conflict` with why none is, and what to do instead."""
    found, record = judged.found, judged.record
    kind = found.cancel if cancel else found.fill
    if kind is not None:
        return kind
    why = judged.problem or found.why
    hint = "; to call it off all the same, give --cancel" if found.cancel is not None else ""
    raise Conflict(f"nonce {record.name} is {found.standing}, not to be filled: {why}. What to do: {found.to_do}{hint}")
