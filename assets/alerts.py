"""Alerts as an asset: what is open, and a check that nothing critical is."""

import dagster as dg

from assets.checks import Finding
from assets.keys import ALERTS, GROUP
from qtg_dagster.domain.alerts import Severity
from qtg_dagster.settings import Settings
from qtg_dagster.store.alerts import read_alerts
from qtg_dagster.store.database import Database
from qtg_dagster.upkeep.alerts.detection import detect_alerts
from resources import DatabaseResource, SettingsResource

NO_CRITICAL_ALERT = "no_critical_alert_open"
_MOST = 50

alerts = dg.AssetSpec(
    ALERTS,
    group_name=GROUP,
    kinds={"postgres"},
    description="What a person must know of, kept in qtg.alerts; told to channels when MG_NOTIFY_ENABLED is true.",
)


async def find_alerts(database: Database, settings: Settings) -> Finding:
    """Look for what is the matter, write it down, and say whether anything critical is open."""
    await detect_alerts(database, settings)
    async with database.transaction() as transaction:
        found = await read_alerts(transaction, settings.network_class, most=_MOST)
    critical = any(one.severity is Severity.CRITICAL for one in found)
    told = {f"{one.id} {one.severity}": one.line() for one in found}
    severity = dg.AssetCheckSeverity.ERROR if critical else dg.AssetCheckSeverity.WARN
    return Finding(ALERTS, NO_CRITICAL_ALERT, not critical, severity, told or {"open": "none"})


@dg.asset_check(asset=ALERTS, name=NO_CRITICAL_ALERT, description="No critical alert is open; others are listed.")
def no_critical_alert_open(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_alerts(opened, now)).result()
