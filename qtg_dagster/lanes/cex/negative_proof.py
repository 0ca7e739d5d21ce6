"""When may a withdrawal that is nowhere on record be called not executed? Pure; absence alone is no proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from qtg_dagster.lanes.cex.venue import CoinBalance, DepositRow, RowState

AFTER_EXPIRY = timedelta(seconds=60)
LOOKUPS_NEEDED = 3
SPAN_NEEDED = timedelta(minutes=10)
_BETWEEN_LOOKUPS = timedelta(minutes=5)
EARLY_LOOK_SECONDS = 20.0
_REF = "withdrawal_absence"


class ArrivalWitness(Protocol):
    """Someone who reads chains and can say what an address received."""

    async def arrived(self, *, chain: str, asset: str, destination: str, since: datetime) -> tuple[str, ...]:
        """Amounts (plain decimals) of the asset that came to the destination since; raises when it cannot tell."""
        ...


@dataclass(frozen=True, slots=True)
class Absence:
    """Well-formed look-ups for one client id that found nothing, counted from its last possible execution on."""

    client_id: str
    lookups: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None

    @classmethod
    def from_refs(cls, refs: Mapping[str, Any], client_id: str) -> Absence:
        """What earlier looks recorded; another attempt's record counts for nothing."""
        stored = refs.get(_REF)
        if not isinstance(stored, Mapping) or stored.get("client_id") != client_id:
            return cls(client_id)
        return cls(
            client_id,
            int(stored["lookups"]),
            datetime.fromisoformat(stored["first_at"]),
            datetime.fromisoformat(stored["last_at"]),
        )

    def to_refs(self) -> dict[str, Any]:
        """The record as a node keeps it between looks."""
        if self.first_at is None or self.last_at is None:
            return {}
        return {
            _REF: {
                "client_id": self.client_id,
                "lookups": self.lookups,
                "first_at": self.first_at.isoformat(),
                "last_at": self.last_at.isoformat(),
            }
        }

    def seen_again(self, now: datetime, countable_from: datetime) -> Absence:
        """With one more empty look-up at `now`; none before `countable_from` counts, which a second request moves."""
        counted = self if self.first_at is None or self.first_at > countable_from else Absence(self.client_id)
        if now <= countable_from:
            return counted
        return replace(counted, lookups=counted.lookups + 1, first_at=counted.first_at or now, last_at=now)

    @property
    def is_long_enough(self) -> bool:
        """At least three look-ups over at least ten minutes."""
        if self.first_at is None or self.last_at is None:
            return False
        return self.lookups >= LOOKUPS_NEEDED and self.last_at - self.first_at >= SPAN_NEEDED

    def seconds_until_next(self) -> float:
        """When to look again: soon while a late row may still turn up, then at the pace of the proof."""
        return EARLY_LOOK_SECONDS if self.lookups == 0 else _BETWEEN_LOOKUPS.total_seconds()


def sign_in_wallet(before: CoinBalance, now: CoinBalance, deposits: Iterable[DepositRow]) -> str | None:
    """What a wallet shows that speaks for a withdrawal; None where it holds what it held, but for deposits made since.

    Free funds count by themselves too: most venues show what is being withdrawn among what is locked. More than
    deposits explain is a sign as well: a transfer from another wallet, or a deposit from before, fills up what a
    withdrawal took.
    """
    came_in = sum((row.amount for row in deposits if row.state is not RowState.FAILED), Decimal(0))
    held, held_before = now.free + now.locked - came_in, before.free + before.locked
    if held < held_before or now.free - came_in < before.free or now.withdrawing > before.withdrawing:
        return "the wallet holds less than before: something left it"
    if held > held_before:
        return "the wallet holds more than deposits explain: what came in may hide what left it"
    return None
