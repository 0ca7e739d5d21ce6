"""How much of an asset may leave accounts of ours in one day (UTC), over all movements of a network class."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.domain.errors import RiskControlViolated

#: What the database says when an intent would leave a limit.
OVER_THE_LIMIT = "QV001"


@dataclass(frozen=True, slots=True)
class VelocityLimit:
    """A limit and what of it is used up today; amounts in base units."""

    asset: str  # its key in the inventory, as in the ledger
    decimals: int
    daily_units: int
    spent_units: int
    set_by: str = ""
    reason: str = ""

    @property
    def left_units(self) -> int:
        return max(0, self.daily_units - self.spent_units)

    def text(self, units: int) -> str:
        """Units of the asset as a decimal amount."""
        return f"{Amount(Asset('units', self.decimals), units).to_text()} {self.asset}"

    def check(self, units: int, *, field: str) -> None:
        """Raise `RiskControlViolated` when so much more would leave the limit."""
        if units > self.left_units:
            raise RiskControlViolated(
                field,
                f"{self.text(units)} is more than the {self.text(self.left_units)} left of today's "
                f"{self.text(self.daily_units)}",
                "Wait for the next day (UTC), or have the limit raised.",
            )
