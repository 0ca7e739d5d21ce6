"""Nonces on EVM chains as an asset: those that nobody will use show as a failed check, with what to do."""

import dagster as dg

from assets.checks import Finding
from assets.keys import EVM_NONCES, GROUP
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.upkeep.nonce_alarms import find_alarms
from resources import DatabaseResource, SettingsResource

NO_DEAD_NONCE = "no_dead_nonce"

evm_nonces = dg.AssetSpec(
    EVM_NONCES,
    group_name=GROUP,
    kinds={"postgres", "ethereum"},
    description="Nonces of our accounts on EVM chains, reserved in qtg.evm_nonce_reservation and filled when dead.",
)


async def find_dead_nonces(database: Database, settings: Settings) -> Finding:
    """Does no nonce hold up what its sender signs? As the reaper found it last: no chain is asked."""
    alarms = await find_alarms(database, settings)
    told = {alarm.name: alarm.told for alarm in alarms}
    return Finding(EVM_NONCES, NO_DEAD_NONCE, not told, dg.AssetCheckSeverity.ERROR, told or {"dead": "none"})


@dg.asset_check(
    asset=EVM_NONCES,
    name=NO_DEAD_NONCE,
    description="No nonce is held by a node that will not use it, and nothing was mined for a node that had ended.",
)
def no_dead_nonce(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_dead_nonces(opened, now)).result()
