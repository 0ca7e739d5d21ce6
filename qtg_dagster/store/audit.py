"""The audit outbox: who did what, written in the transaction of the deed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert

from qtg_dagster.domain.redaction import redact
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.schema.audit import audit_outbox


async def audit(
    transaction: Transaction,
    *,
    network_class: str,
    actor: str,
    action: str,
    subject_id: str,
    details: Mapping[str, Any],
    subject_type: str = "movement_request",
) -> None:
    """Write who did what, in the transaction of the deed."""
    await transaction.execute(
        insert(audit_outbox).values(
            network_class=network_class,
            actor=actor,
            action=action,
            subject_type=subject_type,
            subject_id=subject_id,
            details=redact(dict(details)),
        )
    )
