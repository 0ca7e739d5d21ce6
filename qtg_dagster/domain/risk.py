"""The limits of a template, checked against a movement before it is stored and again before each dispatch."""

from __future__ import annotations

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.domain.errors import RiskControlViolated
from qtg_dagster.domain.plans import RiskControls


def check_amount(controls: RiskControls, amount: Amount, *, field: str) -> None:
    """Raise `RiskControlViolated` for zero and for more than the hard cap."""
    if amount.base_units <= 0:
        raise RiskControlViolated(field, f"{amount} is not positive", "Give an amount above zero.")
    if controls.hard_cap is not None:
        cap = Amount.parse(amount.asset, controls.hard_cap, field="risk_controls.hard_cap")
        if amount > cap:
            raise RiskControlViolated(
                field, f"{amount} is over the hard cap of {cap}", f"Give at most {cap.to_text()}."
            )


def check_destination(controls: RiskControls, destination: str, *, field: str) -> None:
    """Raise `RiskControlViolated` unless the destination is on the template's allowlist (EVM hex case-folded)."""
    if not any(same_destination(destination, entry) for entry in controls.destination_allowlist):
        raise RiskControlViolated(
            field,
            f"{destination} is not on the destination allowlist",
            "Use an allowed destination, or have the template changed and reviewed.",
        )


def check_fee(controls: RiskControls, fee: Amount, asset: Asset, *, field: str = "fee") -> None:
    """Raise `RiskControlViolated` for a fee over the template's ceiling."""
    if controls.max_fee is None:
        return
    ceiling = Amount.parse(asset, controls.max_fee, field="risk_controls.max_fee")
    if fee > ceiling:
        raise RiskControlViolated(
            field, f"{fee} is over the fee ceiling of {ceiling}", "Wait, or raise the ceiling by review."
        )


def same_destination(one: str, other: str) -> bool:
    """Whether two texts name one destination: EVM hex is the same in either case."""
    return _fold(one) == _fold(other)


def _fold(text: str) -> str:
    return text.lower() if text.startswith("0x") else text
