"""The courier that promotes audit entries into their chain."""

from __future__ import annotations

import asyncio

from qtg_dagster.domain.workers import Claimant
from qtg_dagster.settings import Settings
from qtg_dagster.store.audit_chain import promote_entries, waiting_entries
from qtg_dagster.store.database import Database

AUDIT_PROMOTER = "audit_outbox_promoter"
#: Entries a commit: enough to spread its cost, few enough to be over in some tens of milliseconds.
BATCH = 500


class AuditCourier:
    """Promotes what waits, a batch a look. Needs no claims: the chain's lock lets one promoter write at a time."""

    def __init__(self, database: Database, settings: Settings, *, batch: int = BATCH) -> None:
        self._database = database
        self._network_class = settings.network_class
        self._interval_seconds = settings.audit_promotion_interval_seconds
        self._batch = batch

    @property
    def worker(self) -> str:
        return AUDIT_PROMOTER

    @property
    def interval_seconds(self) -> float:
        return self._interval_seconds

    async def work(self, claimant: Claimant, more: asyncio.Event) -> int:  # noqa: ARG002
        """Promote a batch; one that another promoter is at is not waited for."""
        return await promote_entries(self._database, self._network_class, self._batch)

    @property
    def in_flight(self) -> int:
        return 0

    async def finish(self, seconds: float) -> None:
        """Nothing goes on between two looks."""

    async def waiting(self, horizon_seconds: float = 0) -> int:  # noqa: ARG002
        """Entries that are not promoted yet, counted up to a batch."""
        return (await waiting_entries(self._database, self._network_class, most=self._batch)).entries


async def promote_all(database: Database, network_class: str) -> int:
    """Promote batch after batch until nothing waits, or another promoter is at it; gives how many entries that were."""
    many = 0
    while done := await promote_entries(database, network_class, BATCH):
        many += done
    return many
