"""Money: whole base units of one asset, never a float.

At every edge an amount is a plain decimal string: digits, at most one point, no sign, no exponent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Decimal, localcontext
from enum import StrEnum

from qtg_dagster.domain.errors import InvalidInput

_PLAIN_DECIMAL = re.compile(r"(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_MAX_UINT256 = 2**256 - 1


class Rounding(StrEnum):
    """How a division is brought back to whole units; every division names one."""

    DOWN = ROUND_DOWN
    UP = ROUND_UP
    HALF_EVEN = ROUND_HALF_EVEN


@dataclass(frozen=True, slots=True)
class Asset:
    """An asset and its number of decimals, e.g. `Asset("USDC", 6)`."""

    symbol: str
    decimals: int

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9.\-]{1,32}", self.symbol):
            raise InvalidInput("asset", f"{self.symbol!r} is not a symbol", "Give 1-32 letters and digits.")
        if not 0 <= self.decimals <= 36:
            raise InvalidInput("decimals", f"{self.decimals} is out of range", "Give 0 to 36.")


@dataclass(frozen=True, slots=True)
class Amount:
    """`base_units` of `asset`; arithmetic between two assets raises `TypeError`."""

    asset: Asset
    base_units: int

    def __post_init__(self) -> None:
        if not isinstance(self.base_units, int) or isinstance(self.base_units, bool):
            raise TypeError(f"base units are a whole number, not {self.base_units!r}")
        if abs(self.base_units) > _MAX_UINT256:
            raise InvalidInput("amount", "does not fit 256 bits", "Give a smaller amount.")

    @classmethod
    def parse(cls, asset: Asset, text: str, *, field: str = "amount") -> Amount:
        """Read a plain decimal string such as `"12.5"`.

        Raises `InvalidInput` naming `field` for signs, exponents, separators and digits the asset does not have.
        """
        match = _PLAIN_DECIMAL.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidInput(
                field,
                f"{text!r} is not a plain decimal",
                'Give text like "1250.5": no sign, exponent or commas.',
            )
        whole, fraction = match.group(1), (match.group(2) or "")
        if len(fraction.rstrip("0")) > asset.decimals:
            raise InvalidInput(
                field,
                f"{text} has more decimals than {asset.symbol} ({asset.decimals})",
                f"Round it to {asset.decimals} decimals.",
            )
        if len(whole) > 78:
            raise InvalidInput(field, "does not fit 256 bits", "Give a smaller amount.")
        return cls(asset, int(whole + fraction[: asset.decimals].ljust(asset.decimals, "0")))

    @classmethod
    def from_decimal(cls, asset: Asset, value: Decimal, rounding: Rounding) -> Amount:
        """Bring an exact decimal to whole base units with the rounding named; raises `InvalidInput` for no number."""
        if not value.is_finite() or value.adjusted() > 78:
            raise InvalidInput("amount", f"{value} does not fit 256 bits", "Give a smaller, finite number.")
        with localcontext() as context:
            context.prec = 120
            context.rounding = rounding
            units = value.scaleb(asset.decimals).to_integral_value(rounding=rounding)
        return cls(asset, int(units))

    def to_decimal(self) -> Decimal:
        """The exact decimal value."""
        with localcontext() as context:
            context.prec = 120
            return Decimal(self.base_units).scaleb(-self.asset.decimals)

    def to_text(self) -> str:
        """The canonical plain decimal: no exponent, no trailing zeros."""
        sign = "-" if self.base_units < 0 else ""
        digits = str(abs(self.base_units)).rjust(self.asset.decimals + 1, "0")
        if self.asset.decimals == 0:
            return sign + digits
        whole, fraction = digits[: -self.asset.decimals], digits[-self.asset.decimals :].rstrip("0")
        return sign + (f"{whole}.{fraction}" if fraction else whole)

    def round_to_step(self, step: Amount, rounding: Rounding = Rounding.DOWN) -> Amount:
        """The nearest multiple of `step` in the direction named."""
        self._same_asset(step)
        if step.base_units <= 0:
            raise InvalidInput("step", f"{step.to_text()} is not positive", "Give the venue's step.")
        with localcontext() as context:
            context.prec = 160
            count = (Decimal(self.base_units) / step.base_units).to_integral_value(rounding=rounding)
        return Amount(self.asset, int(count) * step.base_units)

    def _same_asset(self, other: Amount) -> None:
        if self.asset != other.asset:
            raise TypeError(f"cannot combine {self.asset} with {other.asset}")

    def __add__(self, other: Amount) -> Amount:
        self._same_asset(other)
        return Amount(self.asset, self.base_units + other.base_units)

    def __sub__(self, other: Amount) -> Amount:
        self._same_asset(other)
        return Amount(self.asset, self.base_units - other.base_units)

    def __lt__(self, other: Amount) -> bool:
        self._same_asset(other)
        return self.base_units < other.base_units

    def __le__(self, other: Amount) -> bool:
        self._same_asset(other)
        return self.base_units <= other.base_units

    def __gt__(self, other: Amount) -> bool:
        return other < self

    def __ge__(self, other: Amount) -> bool:
        return other <= self

    def __str__(self) -> str:
        return f"{self.to_text()} {self.asset.symbol}"


def plain_decimal(value: Decimal) -> str:
    """Spell a finite, non-negative decimal plainly: `Decimal("1E-7")` becomes `"0.0000001"`."""
    if not value.is_finite() or value < 0:
        raise InvalidInput("amount", f"{value} is not a finite, non-negative number", "Give a plain decimal.")
    text = format(value.copy_abs(), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
