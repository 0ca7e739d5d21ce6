"""Checks that read the database: launched by a person, or reported by the movements sensor when they change."""

from dataclasses import dataclass

import dagster as dg

from assets.keys import BALANCES, MOVEMENTS
from qtg_dagster.settings import Settings
from qtg_dagster.store.balances import venue_ages
from qtg_dagster.store.database import Database
from qtg_dagster.store.ledger import verify_ledger
from qtg_dagster.store.settled import needing_intervention
from resources import DatabaseResource, SettingsResource

FRESH = "fresh"
NO_INTERVENTION = "none_needs_intervention"
LEDGER_RIGHT = "ledger_adds_up"
#: Windows that may be missed before a balance counts as old.
_MISSED_WINDOWS = 4
_SLACK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check."""

    asset_key: dg.AssetKey
    check_name: str
    passed: bool
    severity: dg.AssetCheckSeverity
    metadata: dict[str, str]

    def result(self) -> dg.AssetCheckResult:
        """For a check that runs in a run."""
        return dg.AssetCheckResult(
            asset_key=self.asset_key,
            check_name=self.check_name,
            passed=self.passed,
            severity=self.severity,
            metadata=self.metadata,
        )

    def evaluation(self) -> dg.AssetCheckEvaluation:
        """For a sensor, which reports without a run."""
        return dg.AssetCheckEvaluation(
            asset_key=self.asset_key,
            check_name=self.check_name,
            passed=self.passed,
            severity=self.severity,
            metadata=self.metadata,
        )


async def find_old_balances(database: Database, settings: Settings) -> Finding:
    """Is every venue's newest snapshot young enough? Says nothing ill while snapshots are switched off."""
    oldest = settings.balance_snapshot_interval_seconds * _MISSED_WINDOWS + _SLACK_SECONDS
    async with database.transaction() as transaction:
        ages = await venue_ages(transaction, settings.network_class)
    expected = [*settings.inventory.venues, *settings.inventory.chains]
    old = {
        venue: f"{ages[venue].age_seconds:.0f} s old" if venue in ages else "no snapshot in two days"
        for venue in expected
        if venue not in ages or ages[venue].age_seconds > oldest
    }
    switched_on = settings.workers_enabled and settings.balance_snapshot_enabled
    allowed = {"allowed age": f"{oldest} s"} if switched_on else {"snapshots": "switched off"}
    passed = not old or not switched_on
    return Finding(BALANCES, FRESH, passed, dg.AssetCheckSeverity.WARN, old if not passed else allowed)


async def find_interventions(database: Database, settings: Settings) -> Finding:
    """Does any movement wait for a person to sort out what happened?"""
    async with database.transaction() as transaction:
        stopped = await needing_intervention(transaction, settings.network_class)
    waiting = {one.request_id: f"since {one.settled_at:%Y-%m-%d %H:%M:%S} UTC" for one in stopped}
    return Finding(MOVEMENTS, NO_INTERVENTION, not stopped, dg.AssetCheckSeverity.ERROR, waiting or {"waiting": "none"})


async def find_wrong_lines(database: Database, settings: Settings) -> Finding:
    """Does the ledger add up, and does it agree with the nodes?"""
    async with database.transaction() as transaction:
        report = await verify_ledger(transaction, settings.network_class)
    wrong = {f"{one.request_id} {one.node_key}": f"{one.check}: {one.detail}" for one in report.findings if one.wrong}
    wrong |= {asset.symbol: "does not add up to nothing" for asset in report.unbalanced}
    notes = {"worth a look": str(sum(not one.wrong for one in report.findings))}
    return Finding(MOVEMENTS, LEDGER_RIGHT, report.right, dg.AssetCheckSeverity.ERROR, wrong or notes)


@dg.asset_check(
    asset=BALANCES, name=FRESH, description="Every venue's and chain's newest snapshot is as young as its cadence."
)
def balances_are_fresh(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_old_balances(opened, now)).result()


@dg.asset_check(
    asset=MOVEMENTS, name=NO_INTERVENTION, description="No movement is in MANUAL_INTERVENTION: all can go on or ended."
)
def no_movement_needs_intervention(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_interventions(opened, now)).result()


@dg.asset_check(
    asset=MOVEMENTS, name=LEDGER_RIGHT, description="Every asset adds up to nothing, and no node contradicts its lines."
)
def ledger_is_right(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_wrong_lines(opened, now)).result()


asset_checks = (balances_are_fresh, no_movement_needs_intervention, ledger_is_right)
