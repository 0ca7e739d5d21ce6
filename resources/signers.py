"""Signers as a resource."""

import dagster as dg

from qtg_dagster.inventory import AnySignerEntry
from resources.settings import SettingsResource


class SignersResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The signers that QTG may ask, from the inventory; a key never leaves its signer."""

    settings: SettingsResource

    def entries(self) -> dict[str, AnySignerEntry]:
        """Signer key -> signer. Override to use others."""
        return dict(self.settings.read().inventory.signers)
