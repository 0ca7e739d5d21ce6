"""The whole platform as a resource: every other resource, put together for one event loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import dagster as dg

from qtg_dagster.composition import Platform, open_platform
from qtg_dagster.inventory import Inventory
from resources.chains import ChainsResource
from resources.database import DatabaseResource
from resources.executors import ExecutorsResource
from resources.settings import SettingsResource
from resources.signers import SignersResource
from resources.venues import VenuesResource


class PlatformResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Database, chains, venues, signers and executors as one; what ops work with."""

    settings: SettingsResource
    database: DatabaseResource
    chains: ChainsResource
    venues: VenuesResource
    signers: SignersResource
    executors: ExecutorsResource

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Platform]:
        """The platform for the running event loop; every connection is closed at the end of the block."""
        settings = self.settings.read()
        written = {section: getattr(settings.inventory, section) for section in Inventory.model_fields}
        given = {"chains": self.chains.entries(), "venues": self.venues.entries(), "signers": self.signers.entries()}
        inventory = Inventory(**{**written, **given})
        async with open_platform(
            settings,
            inventory=inventory,
            pool_size=self.database.pool_size,
            register_more=self.executors.register_more,
        ) as platform:
            yield platform
