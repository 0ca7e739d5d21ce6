"""Exchanges as a resource."""

import dagster as dg

from qtg_dagster.inventory import VenueEntry
from resources.settings import SettingsResource


class VenuesResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The exchange accounts that QTG may use, from the inventory; their keys are read where they are used."""

    settings: SettingsResource

    def entries(self) -> dict[str, VenueEntry]:
        """Inventory key -> venue. Override to point a venue elsewhere."""
        return dict(self.settings.read().inventory.venues)
