"""Capital transfers that stopped or are late."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.domain.capital_transfers import ADVICE, TransferState
from qtg_dagster.store.capital_transfers import Transfer, transfers_needing_attention
from qtg_dagster.upkeep.alerts.looking import MOST, Look, Source


async def find(look: Look) -> list[Condition]:
    """Each transfer that a person should look at."""
    async with look.database.transaction() as tx:
        shown = await transfers_needing_attention(tx, look.network_class, most=MOST)
    return [found for one in shown if (found := condition(one)) is not None]


def condition(one: Transfer) -> Condition | None:
    """The alert of one transfer."""
    if one.attention_kind is None:
        return None
    stopped = one.state is TransferState.NEEDS_ATTENTION
    evidence = {"transfer": one.transfer_id, "way": f"{one.source} to {one.destination}", "why": one.attention or ""}
    return Condition(
        AlertKind.TRANSFER_ATTENTION,
        one.transfer_id,
        Severity.CRITICAL if stopped else Severity.WARNING,
        f"capital transfer {one.transfer_id} {'stopped' if stopped else 'is late'}",
        evidence,
        (ADVICE[one.attention_kind],),
        (f"qtg transfer show {one.transfer_id}",),
        "capital_transfers",
    )


SOURCE = Source("capital transfers", frozenset({AlertKind.TRANSFER_ATTENTION}), find)
