"""Open breakers, as a check where operators look at movements."""

import dagster as dg

from assets.checks import Finding
from assets.keys import MOVEMENTS
from qtg_dagster.settings import Settings
from qtg_dagster.store.breakers import standing_breakers
from qtg_dagster.store.database import Database
from resources import DatabaseResource, SettingsResource

NONE_HELD_BACK = "none_held_back"


async def find_breakers(database: Database, settings: Settings) -> Finding:
    """Is no breaker open? If one is: since when, by whom, why, and how many READY nodes it holds back."""
    async with database.transaction() as transaction:
        standing = await standing_breakers(transaction, settings.network_class)
    told = {f"{one.scope} {'released' if one.released else 'open'}": one.told() for one in standing}
    return Finding(MOVEMENTS, NONE_HELD_BACK, not told, dg.AssetCheckSeverity.WARN, told or {"open": "none"})


@dg.asset_check(asset=MOVEMENTS, name=NONE_HELD_BACK, description="No breaker is open: whatever is ready is started.")
def none_held_back(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_breakers(opened, now)).result()
