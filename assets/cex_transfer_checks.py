"""Checks on venues' records: days that are not whole, money that moved without us, and ends that changed."""

import dagster as dg

from assets.checks import Finding
from assets.keys import CEX_TRANSFERS
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.record_views import Wanted, incomplete_by_venue, list_transfers, unmatched_by_venue
from resources import DatabaseResource, SettingsResource

COMPLETE = "transfers_complete"
MATCHED = "all_transfers_are_ours"
UNDISPUTED = "no_end_changed"


async def find_incomplete(database: Database, settings: Settings) -> Finding:
    """Was every day that was asked for read whole?"""
    async with database.transaction() as transaction:
        found = await incomplete_by_venue(transaction, settings.network_class)
    told = {one.venue_key: one.told() for one in found}
    return Finding(CEX_TRANSFERS, COMPLETE, not told, dg.AssetCheckSeverity.WARN, told or {"incomplete days": "none"})


async def find_unmatched(database: Database, settings: Settings) -> Finding:
    """Was every transfer on record made by a movement, or does somebody answer for it?"""
    async with database.transaction() as transaction:
        found = await unmatched_by_venue(transaction, settings.network_class)
    told = {one.venue_key: one.told() for one in found}
    return Finding(CEX_TRANSFERS, MATCHED, not told, dg.AssetCheckSeverity.ERROR, told or {"unmatched": "none"})


async def find_disputed(database: Database, settings: Settings) -> Finding:
    """Does every venue still show the ends that it has shown?"""
    async with database.transaction() as transaction:
        found = await list_transfers(transaction, settings.network_class, Wanted(disputed=True))
    told = {f"{row.id} at {row.venue_key}": f"was {row.status}, now {row.disputed_status}" for row in found}
    return Finding(CEX_TRANSFERS, UNDISPUTED, not told, dg.AssetCheckSeverity.ERROR, told or {"disputed": "none"})


@dg.asset_check(asset=CEX_TRANSFERS, name=COMPLETE, description="Every day of a venue that was read was read whole.")
def transfers_complete(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_incomplete(opened, now)).result()


@dg.asset_check(
    asset=CEX_TRANSFERS,
    name=MATCHED,
    description="Every transfer on a venue's record was made by a movement of ours, or somebody answers for it.",
)
def all_transfers_are_ours(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_unmatched(opened, now)).result()


@dg.asset_check(
    asset=CEX_TRANSFERS, name=UNDISPUTED, description="No venue shows another end of a transfer than it did before."
)
def no_end_changed(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_disputed(opened, now)).result()


record_checks = (transfers_complete, all_transfers_are_ours, no_end_changed)
