"""Callbacks as an asset: whether anything is not told to anybody any more."""

import dagster as dg

from assets.checks import Finding
from assets.keys import CALLBACKS, GROUP
from qtg_dagster.settings import Settings
from qtg_dagster.store.callback_desk import given_up
from qtg_dagster.store.database import Database
from resources import DatabaseResource, SettingsResource

NONE_IN_DLQ = "none_in_dlq"

callbacks = dg.AssetSpec(
    CALLBACKS,
    group_name=GROUP,
    kinds={"postgres"},
    description="What movements' owners are told, kept in qtg.movement_callback_outbox.",
)


async def find_given_up(database: Database, settings: Settings) -> Finding:
    """Is any callback in the dlq? If so: how many of which receiver, since when, and what it said."""
    async with database.transaction() as transaction:
        found = await given_up(transaction, settings.network_class)
    told = {one.receiver: one.told() for one in found}
    return Finding(CALLBACKS, NONE_IN_DLQ, not told, dg.AssetCheckSeverity.ERROR, told or {"dlq": "empty"})


@dg.asset_check(
    asset=CALLBACKS,
    name=NONE_IN_DLQ,
    description="No callback was given up: every owner was told. If not, mend the receiver, then `redrive_callbacks`.",
)
def none_in_dlq(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_given_up(opened, now)).result()
