"""What happens at a venue that no client asks for: transactions of what it paid out, and of what came in."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from qtg_dagster.sandbox.exchange.control import DEPOSIT_HISTORY
from qtg_dagster.sandbox.exchange.exchange import Exchange


def pay_out(exchange: Exchange, withdrawal_id: str) -> str:
    """The withdrawal has a transaction from now on, or another one than before; its hash."""
    tx_hash = f"0x{secrets.token_hex(32)}"
    with exchange.ledger.transaction():
        (number,) = exchange.ledger.rows("SELECT count(*) AS n FROM payouts")
        exchange.ledger.write(
            "INSERT INTO payouts (withdrawal_id, sender, nonce, raw, tx_hash, broadcast)"
            " VALUES (?, '0x', ?, '0x', ?, 1)"
            " ON CONFLICT (withdrawal_id) DO UPDATE SET tx_hash = excluded.tx_hash",
            (withdrawal_id, number["n"], tx_hash),
        )
    return tx_hash


async def arrived(desk: Any, status: str, count: int = 1) -> list[dict[str, Any]]:
    """Deposits that are on record in that status, newest first, as the venue's own book has them."""
    ids = await desk.control.add_rows("venue_a", DEPOSIT_HISTORY, count)
    for key in ids:
        await desk.control.show_status("venue_a", DEPOSIT_HISTORY, key, status)
    return [row for row in await desk.control.deposits("venue_a") if row["id"] in ids]


def in_one_transaction(exchange: Exchange, rows: Sequence[dict[str, Any]], tx_hash: str) -> None:
    """Make these deposits outputs of one transaction."""
    with exchange.ledger.transaction():
        for position, row in enumerate(rows):
            exchange.ledger.write(
                "UPDATE deposits SET tx_hash = ?, log_position = ? WHERE id = ?", (tx_hash, position, row["id"])
            )
