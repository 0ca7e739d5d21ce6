"""Giving back nonces that were reserved for something that was never sent."""

from __future__ import annotations

from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.database import Database
from qtg_dagster.store.nonces import NonceLedger

_BATCH = 100


async def reap_stale_nonces(engine: Engine) -> int:
    """Release every reservation that is older than MG_EVM_NONCE_RESERVATION_MAX_AGE_SECONDS and provably unused."""
    ledger = NonceLedger(engine.database)
    released = 0
    while True:
        batch = await ledger.reap(max_age_seconds=engine.settings.evm_nonce_reservation_max_age_seconds, batch=_BATCH)
        released += batch
        if batch < _BATCH:
            return released


async def count_old_reservations(database: Database, max_age_seconds: float) -> int:
    """Reservations that would be released; an index answers, so a schedule can ask before it starts a run."""
    return await NonceLedger(database).count_unused(max_age_seconds=max_age_seconds)
