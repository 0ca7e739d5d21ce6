"""EIP-1559 fees in whole wei."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.chains import ChainId, GasPrice

WEI_PER_GWEI = 10**9
GAS_MARGIN_PERCENT = 120


@dataclass(frozen=True, slots=True)
class Fees:
    """Offer per unit of gas, on one chain."""

    max_fee: GasPrice
    tip: GasPrice

    def cost(self, gas: int) -> int:
        """The most that `gas` units can cost, in wei."""
        return self.max_fee.wei * gas


def offer(chain: ChainId, *, base_fee: int, tip: int, ceiling_gwei: int) -> Fees | None:
    """Twice the base fee plus the tip, cut to the ceiling; None when even this block would not take that."""
    ceiling = ceiling_gwei * WEI_PER_GWEI
    if base_fee + tip > ceiling:
        return None
    return Fees(max_fee=GasPrice(chain, min(2 * base_fee + tip, ceiling)), tip=GasPrice(chain, tip))


def gas_limit(estimate: int) -> int:
    """The estimate with a margin, rounded up."""
    return -(-estimate * GAS_MARGIN_PERCENT // 100)
