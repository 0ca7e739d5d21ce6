"""Chains as a resource."""

import dagster as dg

from qtg_dagster.inventory import ChainEntry
from resources.settings import SettingsResource


class ChainsResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The chains that QTG may use: endpoints, tokens and finality, from the inventory."""

    settings: SettingsResource

    def entries(self) -> dict[str, ChainEntry]:
        """CAIP-2 name -> chain. Override to point a chain elsewhere."""
        return dict(self.settings.read().inventory.chains)
