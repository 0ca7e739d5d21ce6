"""Who a signer should be, as an operator enrolled it, against who it says it is, as the health round saw it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Posture(StrEnum):
    """How expectation and observation stand to each other; derived when it is read, never stored."""

    UNENROLLED = "unenrolled"  # nobody has said who it should be
    UNOBSERVED = "unobserved"  # it has not said yet who it is
    MATCHES = "matches"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class SignerIdentity:
    """One signer of the roster; addresses are lower-case hex."""

    signer_key: str
    expected_address: str | None
    observed_address: str | None
    registered: bool

    @property
    def posture(self) -> Posture:
        if self.expected_address is None:
            return Posture.UNENROLLED
        if self.observed_address is None:
            return Posture.UNOBSERVED
        return Posture.MATCHES if self.expected_address == self.observed_address else Posture.DIFFERS

    def told(self) -> str:
        """For people."""
        match self.posture:
            case Posture.UNENROLLED:
                return f"nobody has enrolled it; it says it is {self.observed_address or 'nothing yet'}"
            case Posture.UNOBSERVED:
                return f"enrolled as {self.expected_address}; it has not been seen yet"
            case Posture.MATCHES:
                return f"is {self.observed_address}, as enrolled"
            case Posture.DIFFERS:
                return f"says it is {self.observed_address}, and was enrolled as {self.expected_address}"
