"""How a venue is at the moment, single faults apart: lagging, in maintenance, a network closed, a key limited."""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, field_validator

from qtg_dagster.domain.plans import Frozen
from qtg_dagster.sandbox.exchange.dialect import HISTORIES, Role

_CAN_LAG = (*HISTORIES, Role.BALANCES)


class Conditions(Frozen):
    """A venue's present mood. The default is a healthy venue."""

    lag_history_seconds: float = Field(default=0, ge=0, description="rows younger than this are not in histories yet")
    lag_seconds: dict[Role, NonNegativeFloat] = Field(
        default_factory=dict, description="lag of single endpoints by role: withdrawals, deposits or balances"
    )
    empty_history_times: int = Field(default=0, ge=0, description="the next n history look-ups answer []")
    maintenance: bool = False
    withdraw_disabled: tuple[str, ...] = Field(default=(), description='"COIN/NETWORK" pairs')
    deposit_disabled: tuple[str, ...] = ()
    travel_rule: bool = Field(default=False, description="withdrawals need the travel rule's own endpoint")
    key_reads: bool = True
    key_withdraws: bool = True
    ip_restricted: bool = Field(default=False, description="the key is bound to addresses, this client's among them")
    ip_allowed: bool = Field(default=True, description="false = the key is bound to others, and refused from here")
    account_status: str = "Normal"
    clock_skew_ms: int = Field(default=0, description="the venue's clock minus the true time")

    @field_validator("lag_seconds")
    @classmethod
    def _can_lag(cls, value: dict[Role, float]) -> dict[Role, float]:
        for role in value:
            if role not in _CAN_LAG:
                raise ValueError(f"{role} cannot lag; give {', '.join(_CAN_LAG)}")
        return value

    def lag_ms(self, role: Role) -> int:
        """How old something has to be before endpoints of this role tell of it."""
        common = self.lag_history_seconds if role in HISTORIES else 0
        return int(self.lag_seconds.get(role, common) * 1000)
