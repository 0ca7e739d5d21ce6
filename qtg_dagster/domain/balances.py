"""What a venue or chain said that we own, at one moment."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from pydantic import Field

from qtg_dagster.domain.plans import Frozen


class BalanceReading(Frozen):
    """One asset in one wallet. Amounts are plain decimal strings."""

    venue_key: str = Field(description="inventory key of the venue, or the chain's CAIP-2 name")
    account: str = Field(description="the venue's account name, or the on-chain address")
    wallet: str = Field(default="main", description="wallet type at the venue, e.g. spot")
    asset: str = Field(description="inventory key of the asset")
    free: str
    locked: str = "0"
    request_started_at: datetime
    request_ended_at: datetime
    source_time: datetime | None = Field(default=None, description="the venue's own time, or the block's")
    source_height: int | None = Field(default=None, description="block number, for chains")
    complete: bool = Field(default=True, description="false = another wallet of the account could not be read")
    missing: tuple[str, ...] = Field(
        default=(), exclude=True, description="those wallets and why; they have no readings, and no zeros"
    )


class BalanceFetcher(Protocol):
    """Reads all balances of one venue account or one chain in one go."""

    @property
    def venue_key(self) -> str: ...

    @property
    def paying_wallet(self) -> str:
        """The wallet that withdrawals and transfers are paid from."""
        ...

    async def fetch(self) -> tuple[BalanceReading, ...]:
        """Current balances; raises what the transport raises: a failed reading is no reading."""
        ...
