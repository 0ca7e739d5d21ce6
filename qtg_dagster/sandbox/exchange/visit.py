"""One request at a venue: judged on arrival, executed once, and once more when it arrives twice."""

from __future__ import annotations

from qtg_dagster.sandbox.exchange.arrivals import Asked
from qtg_dagster.sandbox.exchange.dialect import Role
from qtg_dagster.sandbox.exchange.faults import Fault, FaultKind, status_number
from qtg_dagster.sandbox.exchange.strangers import arrive
from qtg_dagster.sandbox.exchange.venue import Execution, Found, Rollback, Venue
from qtg_dagster.sandbox.exchange.wire import Answer, Refusal, VenueRequest


class Visit:
    """What happens to a request at the venue, whatever its client gets to see."""

    def __init__(
        self, venue: Venue, request: VenueRequest, found: Found | None, asked: Asked, fault: Fault | None
    ) -> None:
        self._venue = venue
        self._request = request
        self._found = found
        self._asked = asked
        self._fault = fault
        # What never reaches the venue is not judged there either: it uses up no nonce.
        self._judged = self._judge() if fault is None or fault.does_execute else None

    def execute(self) -> Answer:
        """Do what was asked, under the fault's influence on what is told."""
        fault = self._fault
        if fault is not None and fault.kind is FaultKind.PAGING_SHIFT:
            arrive(self._venue, Role(fault.endpoint), fault.rows)
        answer, self._asked.outcome = self._told(self._judged or self._judge())
        return answer

    def execute_copy(self) -> Answer:
        """Treat the same bytes as they deserve when they come again."""
        answer, self._asked.copy_outcome = self._told(self._judge())
        return answer

    def _judge(self) -> Execution | Refusal:
        try:
            return self._venue.admit(self._request, self._found)
        except Refusal as refusal:
            return refusal

    def _told(self, execution: Execution | Refusal) -> tuple[Answer, str]:
        fault = self._fault
        if fault is None or fault.kind is not FaultKind.STATUS_ROLLBACK:
            return self._executed(execution)
        history = Role(fault.endpoint)
        status = None if fault.to_status is None else status_number(history, fault.to_status)
        with self._venue.rolled_back(Rollback(history, fault.row, status)):
            return self._executed(execution)

    def _executed(self, execution: Execution | Refusal) -> tuple[Answer, str]:
        try:
            if isinstance(execution, Refusal):
                raise execution
            return execution(), "executed"
        except Refusal as refusal:
            return self._venue.refused(refusal), f"refused {refusal.code}"
