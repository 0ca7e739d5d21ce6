"""What people decide about transfers on venues' records: who answers for one, and which of two ends stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.store.audit import audit
from qtg_dagster.store.database import Database
from qtg_dagster.store.record_decisions import acknowledge, lock_disputed, settle

OURS, VENUES = "ours", "venues"
_MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class Answered:
    """Which transfers somebody answers for: these, or all unmatched ones of a venue before a time."""

    numbers: tuple[int, ...] = ()
    venue_key: str | None = None
    before: datetime | None = None

    @classmethod
    def read(cls, numbers: Sequence[int], venue_key: str | None, before: str | None) -> Answered:
        """Raises `InvalidInput` unless it is either transfers by number, or a venue and a time."""
        if bool(numbers) == bool(venue_key and before) or bool(venue_key) != bool(before):
            fix = "Give numbers, or both venue and before."
            raise InvalidInput("transfers", "it is not clear which transfers are meant", fix)
        return cls(tuple(numbers), venue_key or None, None if not before else moment(before))


async def acknowledge_transfers(
    database: Database, network_class: str, answered: Answered, *, actor: str, reason: str
) -> int:
    """Write who answers for them and why, with an audit entry; how many there were. Raises `InvalidInput` for none."""
    _said(actor, reason)
    async with database.transaction() as transaction:
        found = await acknowledge(
            transaction,
            network_class,
            numbers=answered.numbers,
            venue_key=answered.venue_key,
            before=answered.before,
            actor=actor,
            reason=reason,
        )
        if not found or set(answered.numbers) - set(found):
            missing = ", ".join(map(str, sorted(set(answered.numbers) - set(found))))
            problem = f"not unmatched on our record: {missing or f'anything at {answered.venue_key} before then'}"
            raise InvalidInput("transfers", problem, "See `qtg record list --unmatched`.")
        await audit(
            transaction,
            network_class=network_class,
            actor=actor,
            action="acknowledge_cex_transfers",
            subject_type="cex_transfer",
            subject_id=str(found[0]) if len(found) == 1 else f"{found[0]} and {len(found) - 1} more",
            details={
                "reason": reason,
                "count": len(found),
                "transfers": list(found[:_MOST_NAMED]),
                "venue": answered.venue_key,
                "before": None if answered.before is None else answered.before.isoformat(),
            },
        )
    return len(found)


async def settle_transfer(
    database: Database, network_class: str, number: int, *, stands: str, actor: str, reason: str
) -> None:
    """Write which end of a disputed transfer stands, with an event and an audit entry."""
    _said(actor, reason)
    if stands not in (OURS, VENUES):
        raise InvalidInput("stands", f"{stands!r} is neither", f"Give {OURS} or {VENUES}.")
    async with database.transaction() as transaction:
        disputed = await lock_disputed(transaction, network_class, number)
        if disputed is None:
            raise InvalidInput("transfer", f"{number} is not disputed", "See `qtg record list --disputed`.")
        if stands == VENUES and not disputed.is_final:
            problem = f"the venue shows {disputed.theirs}, which is no end"
            raise InvalidInput("stands", problem, "Wait until it shows an end, or let ours stand.")
        await settle(transaction, disputed, venues=stands == VENUES, actor=actor)
        await audit(
            transaction,
            network_class=network_class,
            actor=actor,
            action="settle_cex_transfer",
            subject_type="cex_transfer",
            subject_id=str(number),
            details={"reason": reason, "stands": stands, "ours": disputed.ours, "venues": disputed.theirs},
        )


def _said(actor: str, reason: str) -> None:
    for name, value in (("actor", actor), ("reason", reason)):
        if not value.strip():
            raise InvalidInput(name, "is empty", "Say who decides, and why: it goes into the audit trail.")


def moment(text: str) -> datetime:
    """A time as people give it, UTC unless it says otherwise; raises `InvalidInput`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("before", f"{text!r} is no time", "Give one like 2026-03-01T00:00:00Z.") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
