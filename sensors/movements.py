"""The sensor that reports movements which came to rest, off the money path."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg

from assets.alerts import find_alerts
from assets.breakers import find_breakers
from assets.callbacks import find_given_up
from assets.capital_transfers import find_stranded, find_transfers
from assets.cex_transfer_checks import find_disputed, find_incomplete, find_unmatched
from assets.checks import Finding, find_interventions, find_old_balances
from assets.movements import materialization
from assets.nonces import find_dead_nonces
from assets.workers import find_workers
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.settled import Settled, settled_since
from qtg_dagster.store.views import MovementView, read_movements
from resources import DatabaseResource, SettingsResource
from sensors.switches import worker_switch

_INTERVAL_SECONDS = 5
_MOST = 50
#: A row's time is its transaction's begin, so one that is seen later may bear an earlier time.
_OVERLAP = timedelta(seconds=30)
#: How far back the first tick looks.
_FIRST_LOOK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Cursor:
    """What was reported: up to when, which of the latest, and how each check stood."""

    since: datetime
    told: dict[str, str]
    findings: dict[str, str]

    @classmethod
    def read(cls, text: str | None, now: datetime) -> "Cursor":
        if not text:
            return cls(now - _FIRST_LOOK, {}, {})
        stored = json.loads(text)
        return cls(datetime.fromisoformat(stored["since"]), stored["told"], stored["findings"])

    def after(self, settled: Sequence[Settled], findings: Sequence[Finding]) -> "Cursor":
        """The cursor once these are reported; marks that no later tick can meet again are dropped."""
        times = {one.mark: one.settled_at for one in settled}
        newest = max([self.since + _OVERLAP, *times.values()]) - _OVERLAP
        marks = {**self.told, **{mark: at.isoformat() for mark, at in times.items()}}
        told = {mark: at for mark, at in marks.items() if datetime.fromisoformat(at) > newest}
        return Cursor(newest, told, {_name(one): _outcome(one) for one in findings})

    def text(self) -> str:
        return json.dumps({"since": self.since.isoformat(), "told": self.told, "findings": self.findings})


@dataclass(frozen=True, slots=True)
class News:
    """What one look found."""

    settled: list[Settled]
    movements: list[MovementView]
    findings: list[Finding]


def movements_sensor(settings: Settings) -> dg.SensorDefinition:
    """Reads what came to rest since the last tick and reports it as asset events, without a run."""
    switch = worker_switch(settings)

    @dg.sensor(
        name="movements_finished",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=switch.sensor_status,
        description=switch.explain("Reports each movement that came to rest on the asset `movements`."),
    )
    def report(
        context: dg.SensorEvaluationContext, settings: SettingsResource, database: DatabaseResource
    ) -> dg.SensorResult:
        now = settings.read()
        cursor = Cursor.read(context.cursor, datetime.now(UTC))
        news = database.read(lambda opened: look(opened, now, cursor))
        changed = [one for one in news.findings if cursor.findings.get(_name(one)) != _outcome(one)]
        after = cursor.after(news.settled, news.findings)
        events: list[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation] = [
            *(materialization(movement) for movement in news.movements),
            *(finding.evaluation() for finding in changed),
        ]
        if not events:
            return dg.SensorResult(skip_reason=dg.SkipReason("nothing came to rest since the last look"))
        return dg.SensorResult(asset_events=events, cursor=after.text())

    return report


async def look(database: Database, settings: Settings, cursor: Cursor) -> News:
    """What came to rest after the cursor, oldest first and at most a batch, and how the checks stand."""
    async with database.transaction() as transaction:
        settled = await settled_since(transaction, settings.network_class, cursor.since, told=cursor.told, most=_MOST)
        ids = [one.request_id for one in settled]
        found = await read_movements(transaction, settings.network_class, request_ids=ids, most=_MOST) if ids else []
    order = {request_id: place for place, request_id in enumerate(ids)}
    findings = [
        await find_old_balances(database, settings),
        await find_interventions(database, settings),
        await find_breakers(database, settings),
        await find_given_up(database, settings),
        await find_transfers(database, settings),
        await find_stranded(database, settings),
        await find_dead_nonces(database, settings),
        await find_incomplete(database, settings),
        await find_unmatched(database, settings),
        await find_disputed(database, settings),
        *await find_workers(database, settings),
        await find_alerts(database, settings),
    ]
    return News(settled, sorted(found, key=lambda movement: order[movement.request_id]), findings)


def _name(finding: Finding) -> str:
    return f"{finding.asset_key.to_user_string()} {finding.check_name}"


def _outcome(finding: Finding) -> str:
    """Changes when there is something new to say, and not with every second of age."""
    return f"{finding.passed} {', '.join(sorted(finding.metadata))}"
