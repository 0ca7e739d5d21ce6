"""Refusals that a replayed copy of an accepted request gets too: believed once an empty look-up means something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.lanes.cex.outcome import Outcome

_REF = "withdrawal_refused"
_LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class Refusal:
    """A venue's refusal of one request, as the node keeps it until it can be believed."""

    client_id: str
    code: str
    message: str
    refused_at: str

    @classmethod
    def of(cls, outcome: Outcome, client_id: str, now: datetime) -> Refusal:
        return cls(client_id, str(outcome.error_code), outcome.reason[:_LONGEST_MESSAGE], now.isoformat())

    @classmethod
    def from_refs(cls, refs: Mapping[str, Any], client_id: str) -> Refusal | None:
        """What `submit` wrote down for this very request; another attempt's refusal counts for nothing."""
        stored = refs.get(_REF)
        return cls(**stored) if isinstance(stored, Mapping) and stored.get("client_id") == client_id else None

    def unconfirmed(self, evidence: Mapping[str, Any], *, look_after: float) -> ExecutionResult:
        """UNKNOWN until `recover` has looked."""
        return ExecutionResult(
            status=ResultStatus.UNKNOWN,
            provider_refs={_REF: asdict(self)},
            error_code=self.code,
            error_message=f"refused ({self.message}), and to be confirmed by the venue's record",
            retry_after_seconds=look_after,
            evidence=dict(evidence),
        )

    def not_on_record(self, looked_at: datetime, settle_seconds: float) -> ExecutionResult:
        """After an empty look-up: FAILED, or UNKNOWN while a row may still be on its way to the record."""
        age = (looked_at - datetime.fromisoformat(self.refused_at)).total_seconds()
        evidence = {"refused": asdict(self), "rows": [], "looked_at": looked_at.isoformat()}
        if age < settle_seconds:
            return self.unconfirmed(evidence, look_after=settle_seconds - age)
        return ExecutionResult(
            status=ResultStatus.FAILED,
            error_code=self.code,
            error_message=f"refused ({self.message}), and {age:.0f} s later it is not on the venue's record",
            evidence=evidence,
        )
