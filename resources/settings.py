"""QTG's settings as a resource."""

import dagster as dg

from qtg_dagster.settings import Settings


class SettingsResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Settings, read from the environment of the process that runs; nothing of them is stored in run config."""

    def read(self) -> Settings:
        """The settings with the database of this machine; raises `ConfigurationError` naming the variable."""
        from qtg_dagster.host.environment import machine_settings

        return machine_settings()
