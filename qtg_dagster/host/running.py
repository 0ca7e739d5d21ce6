"""The settings of what runs on this machine: the environment's, completed by what `qtg up` has started."""

from __future__ import annotations

from qtg_dagster.host.database import database_url
from qtg_dagster.host.paths import state_home
from qtg_dagster.settings import Settings, load_settings

INVENTORY_NAME = "inventory.yaml"


def running_settings() -> Settings:
    """Settings with the running database and, when none is set, the state folder's inventory.

    Raises `ConfigurationError` when a variable is wrong or no database runs.
    """
    settings = load_settings()
    found = {"database_url": database_url(settings)}
    inventory = state_home() / INVENTORY_NAME
    if settings.inventory_file is None and inventory.is_file():
        return settings.model_copy(update={**found, "inventory_file": inventory})
    return settings.model_copy(update=found)
