"""Where a withdrawal went, told by its transaction, at venues whose rows do not say it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Protocol

from qtg_dagster.domain.contract import ExecutionResult
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.lanes.cex.matching import transaction_hash
from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.venue import FeeRule, Venue, WithdrawalRow

#: Bounds of one look: rows that are left out show no destination, as before.
MOST_ROWS = 20
SECONDS = 20.0


class PaymentWitness(Protocol):
    """Someone who reads chains and can say whom a transaction paid."""

    async def paid_to(
        self, *, chain: str, asset: str, tx_hash: str, amounts: Collection[Decimal], destination: str
    ) -> str | None:
        """The address that was paid exactly one of these amounts of the asset by this transaction, once it is final.

        None where that leaves any doubt. Another address than `destination` is answered only if nothing of what it was
        paid can have gone on to `destination` in the same transaction. Raises `QtgError` when it cannot look.
        """
        ...


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows with the destinations that chains show, and what was seen for each that was looked at."""

    rows: tuple[WithdrawalRow, ...]
    seen: tuple[str, ...] = ()

    def beside(self, verdict: ExecutionResult | None) -> ExecutionResult | None:
        """A verdict about these rows, with what the chain showed in its evidence."""
        if verdict is None or not self.seen:
            return verdict
        return verdict.model_copy(update={"evidence": {**verdict.evidence, "on_chain": list(self.seen)}})


async def with_destinations(
    withdrawal: Withdrawal,
    rows: Iterable[WithdrawalRow],
    fits: Callable[[WithdrawalRow], bool],
    witness: PaymentWitness | None,
) -> Shown:
    """The rows, those that fit with the address that their transaction paid, where the chain leaves no doubt.

    Only where the venue's rows never show one. A look that fails or takes too long leaves a row as it was.
    """
    told = list(rows)
    if witness is None or withdrawal.account.venue.rows_show_destination:
        return Shown(tuple(told))
    seen: list[str] = []
    places = [place for place, row in enumerate(told) if _payout(withdrawal, row) is not None and fits(row)]
    try:
        async with asyncio.timeout(SECONDS):
            for place in places[:MOST_ROWS]:
                told[place], what = await _look(withdrawal, told[place], witness)
                seen.append(what)
    except TimeoutError:
        seen.append(f"no answer within {SECONDS:g} s")
    return Shown(tuple(told), tuple(seen))


def may_arrive(row: WithdrawalRow, venue: Venue) -> frozenset[Decimal]:
    """What can arrive of a row: where nobody says on which side its fee is, less may arrive than it shows."""
    arriving = venue.arriving(row)
    either = {arriving, row.amount - row.fee} if venue.fee_rule is FeeRule.EITHER else {arriving}
    return frozenset(amount for amount in either if amount > 0)


def _payout(withdrawal: Withdrawal, row: WithdrawalRow) -> str | None:
    """The transaction to ask about; a transfer inside the venue has none, whatever stands in its place."""
    if row.address is not None or row.internal:
        return None
    return transaction_hash(withdrawal.config.chain, row.tx_id)


async def _look(withdrawal: Withdrawal, row: WithdrawalRow, witness: PaymentWitness) -> tuple[WithdrawalRow, str]:
    config, tx_hash = withdrawal.config, str(_payout(withdrawal, row))
    of = f"{row.withdrawal_id}: transaction {tx_hash} on {config.chain}"
    try:
        paid = await witness.paid_to(
            chain=config.chain,
            asset=config.asset,
            tx_hash=tx_hash,
            amounts=may_arrive(row, withdrawal.account.venue),
            destination=withdrawal.order.address,
        )
    except QtgError as problem:
        return row, f"{of} could not be read: {problem}"
    if paid is None:
        return row, f"{of} does not tell for certain whom it paid, or is not final yet"
    return replace(row, address=paid), f"{of} paid {paid}"
