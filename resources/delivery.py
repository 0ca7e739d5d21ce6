"""The delivery drain as a resource: who carries what, under the role that may."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import dagster as dg

from qtg_dagster.composition import build_couriers
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.slots import SlotState, slot_state
from qtg_dagster.upkeep.couriers import Courier
from qtg_dagster.upkeep.delivery import DELIVER, Delivery
from resources.lookout import lookout_for
from resources.settings import SettingsResource

_POOL_SIZE = 5


class DeliveryResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Callbacks, audit entries and notifications."""

    settings: SettingsResource

    def couriers(self, database: Database, settings: Settings) -> Sequence[Courier]:
        """Who carries what; a location of your own may override this to add one."""
        return build_couriers(database, settings)

    @asynccontextmanager
    async def open(self, dagster_run_id: str | None = None) -> AsyncIterator[Delivery]:
        """A delivery drain for the running event loop; every connection is closed at the end of the block."""
        settings = self.settings.read()
        database = Database(_url(settings), pool_size=_POOL_SIZE)
        try:
            couriers = self.couriers(database, settings)
            yield Delivery(PostgresStore(database), settings, couriers, dagster_run_id=dagster_run_id)
        finally:
            await database.close()

    def look(self, *, horizon_seconds: float, overdue_seconds: float) -> tuple[dict[str, int], SlotState]:
        """What waits, by worker, and who stands at the drain's slot; asked from a thread without an event loop."""
        settings = self.settings.read()

        async def see(database: Database) -> tuple[dict[str, int], SlotState]:
            couriers = self.couriers(database, settings)
            waiting = {each.worker: await each.waiting(horizon_seconds) for each in couriers}
            slot = await slot_state(database, DELIVER, settings.network_class, overdue_seconds=overdue_seconds)
            return waiting, slot

        return lookout_for(_url(settings)).read(see)


def _url(settings: Settings) -> str:
    return settings.sender_database_url or settings.database_url
