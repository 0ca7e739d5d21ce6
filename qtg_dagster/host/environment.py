"""The environment that QTG's processes share on one machine, and settings for commands run outside of it."""

from __future__ import annotations

import os
from pathlib import Path

from qtg_dagster.host.database import DatabaseUrls, dagster_url, database_urls
from qtg_dagster.host.paths import state_home
from qtg_dagster.settings import Settings, load_settings


def shared_environment(home: Path, urls: DatabaseUrls) -> dict[str, str]:
    """Variables for every process of this state folder."""
    inventory = os.environ.get("MG_INVENTORY_FILE") or str(home / "inventory.yaml")
    return {
        "DATABASE_URL": urls.app,
        "MG_SIGNER_DATABASE_URL": urls.signer,
        "MG_SENDER_DATABASE_URL": urls.sender,
        "MG_RETENTION_DATABASE_URL": urls.retention,
        "QTG_DAGSTER_DATABASE_URL": dagster_url(urls.dagster),
        "QTG_HOME": str(home),
        "DAGSTER_HOME": str(home / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        **({"MG_INVENTORY_FILE": inventory} if Path(inventory).is_file() else {}),
    }


def machine_settings() -> Settings:
    """Settings with the database and inventory that `qtg up` would give: for commands in a plain shell.

    Raises `ConfigurationError` when there is no database to talk to.
    """
    settings = local_settings()
    urls = database_urls(settings)
    return settings.model_copy(
        update={
            "database_url": urls.app,
            "signer_database_url": urls.signer,
            "sender_database_url": urls.sender,
            "retention_database_url": urls.retention,
        }
    )


def local_settings() -> Settings:
    """Settings with the inventory of this state folder when the environment names none."""
    settings = load_settings()
    inventory = state_home() / "inventory.yaml"
    if settings.inventory_file is not None or not inventory.is_file():
        return settings
    return settings.model_copy(update={"inventory_file": inventory})
