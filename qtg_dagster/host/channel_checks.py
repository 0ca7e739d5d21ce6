"""Doctor's check of the channels that alerts are told to."""

from __future__ import annotations

from collections.abc import Iterator

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.findings import Finding
from qtg_dagster.settings import Settings


def notification_channels(settings: Settings) -> Iterator[Finding]:
    """apprise can use the URL of every channel; nothing is sent."""
    from qtg_dagster.upkeep.alerts.channels import open_channel

    channels = settings.inventory.notifications
    if settings.notify_enabled and not channels:
        yield Finding("notifications", False, "switched on, and there is no channel", "name one in the inventory")
    if not settings.notify_enabled:
        named = f"{len(channels)} channels named" if channels else "no channel named"
        yield Finding("notifications", True, f"{named}, nothing is sent: MG_NOTIFY_ENABLED is false")
    for name, entry in channels.items():
        try:
            open_channel(name, entry)
        except ConfigurationError as error:
            yield Finding(f"channel {name}", False, str(error), "correct the secret that it names")
            continue
        yield Finding(f"channel {name}", True, f"usable, from {entry.least_severity} on; `qtg alert test {name}` sends")
