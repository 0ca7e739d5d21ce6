"""Who did what: written in the transaction of the deed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.audit import audit
from qtg_dagster.store.database import Transaction


async def audit_deed(
    tx: Transaction, engine: Engine, actor: str, action: str, request_id: str, details: Mapping[str, Any]
) -> None:
    """Put a person's deed on one movement into the audit outbox."""
    await audit(
        tx,
        network_class=engine.settings.network_class,
        actor=actor,
        action=action,
        subject_id=request_id,
        details=details,
    )
