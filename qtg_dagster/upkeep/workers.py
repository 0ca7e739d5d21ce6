"""The workers that are expected to show signs of life, by the runtime reference's names."""

from __future__ import annotations

from qtg_dagster.engine.drain import WORKER_NAMES
from qtg_dagster.settings import Settings

EXECUTOR_HEALTH = "executor_health"
NONCE_REAPER = "evm_nonce_reaper"
BALANCE_SNAPSHOT = "balance_snapshot"


def expected_workers(settings: Settings) -> list[str]:
    """Names of the workers that these settings switch on."""
    if not settings.workers_enabled:
        return []
    conditional = {
        NONCE_REAPER: settings.evm_nonce_reaper_enabled,
        BALANCE_SNAPSHOT: settings.balance_snapshot_enabled,
    }
    return [*WORKER_NAMES.values(), EXECUTOR_HEALTH, *(name for name, on in conditional.items() if on)]
