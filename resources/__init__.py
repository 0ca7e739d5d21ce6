"""Dagster resources: what ops and sensors are given, each visible in the web UI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from resources.chains import ChainsResource
from resources.database import DatabaseResource
from resources.delivery import DeliveryResource
from resources.executors import ExecutorsResource
from resources.platform import PlatformResource
from resources.settings import SettingsResource
from resources.signers import SignersResource
from resources.venues import VenuesResource

__all__ = [
    "ChainsResource",
    "DatabaseResource",
    "DeliveryResource",
    "ExecutorsResource",
    "PlatformResource",
    "ResourceSet",
    "SettingsResource",
    "SignersResource",
    "VenuesResource",
]


@dataclass(frozen=True, slots=True)
class ResourceSet:
    """One of each, wired together; give another executors or delivery resource to add your own."""

    settings: SettingsResource
    database: DatabaseResource
    chains: ChainsResource
    venues: VenuesResource
    signers: SignersResource
    executors: ExecutorsResource
    platform: PlatformResource
    delivery: DeliveryResource

    @classmethod
    def wired(cls, executors: ExecutorsResource | None = None, delivery: DeliveryResource | None = None) -> ResourceSet:
        """Every part reads the same settings."""
        settings = SettingsResource()
        database = DatabaseResource(settings=settings)
        chains, venues = ChainsResource(settings=settings), VenuesResource(settings=settings)
        signers = SignersResource(settings=settings)
        executors = executors or ExecutorsResource()
        platform = PlatformResource(
            settings=settings, database=database, chains=chains, venues=venues, signers=signers, executors=executors
        )
        delivery = delivery or DeliveryResource(settings=settings)
        return cls(settings, database, chains, venues, signers, executors, platform, delivery)

    def by_key(self) -> dict[str, Any]:
        """Resource key -> resource, as `Definitions` takes them."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
