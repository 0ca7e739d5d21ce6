"""Approvals and rejections, and what stands in their way."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import insert, text

from qtg_dagster.store.database import Transaction
from qtg_dagster.store.requests import LockedRequest
from qtg_dagster.store.schema.movements import movement_approvals


async def insert_approval(
    transaction: Transaction, request: LockedRequest, *, decision: str, actor: str, reason: str
) -> None:
    """Record a decision with exactly what was decided on."""
    await transaction.execute(
        insert(movement_approvals).values(
            request_id=request.request_id,
            decision=decision,
            actor=actor,
            reason=reason,
            compiled_plan_hash=request.compiled_plan_hash,
            approval_digest=request.approval_digest,
        )
    )


async def down_bindings(transaction: Transaction, network_class: str, bindings: Mapping[str, str]) -> list[str]:
    """Keys among the bindings' executors and signers whose last known health is `down`."""
    rows = await transaction.execute(
        text("""
            SELECT key FROM (
                SELECT executor_key AS key, network_class, health_state FROM qtg.executor_registry
                UNION ALL
                SELECT signer_key, network_class, health_state FROM qtg.signer_registry
            ) AS entry
            WHERE network_class = :network_class AND health_state = 'down' AND key = ANY (CAST(:keys AS text[]))
        """),
        {"network_class": network_class, "keys": sorted(set(bindings.values()))},
    )
    return sorted(rows.scalars())
