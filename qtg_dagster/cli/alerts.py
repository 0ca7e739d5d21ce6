"""`qtg alert`: what is the matter, who knows of it, and whether messages arrive."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from qtg_dagster.settings import Settings
    from qtg_dagster.store.database import Database

T = TypeVar("T")

_by = click.option("--by", "actor", required=True, help="who decides; goes into the audit trail")
_UNITS = {"m": 60, "h": 3600, "d": 86400}


class _Duration(click.ParamType[float]):
    """A time such as 30m, 4h or 2d, in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", str(value))
        if found is None:
            self.fail(f"{value!r} is no time; write 30m, 4h or 2d", param, ctx)
        return float(int(found[1]) * _UNITS[found[2]])


@click.group()
def alert() -> None:
    """See what a person must know of, acknowledge it, and try the channels."""


@alert.command("list")
@click.option("--all", "resolved", is_flag=True, help="those that are over too")
@click.option("--most", default=50, show_default=True, type=click.IntRange(1, 1000))
def list_(resolved: bool, most: int) -> None:
    """Look at once, and show what is open, the worst first; exit 1 while something critical is."""

    async def work(database: Database, settings: Settings) -> bool:
        from qtg_dagster.domain.alerts import Severity
        from qtg_dagster.store.alerts import read_alerts
        from qtg_dagster.upkeep.alerts.detection import detect_alerts

        await detect_alerts(database, settings)
        async with database.transaction() as tx:
            found = await read_alerts(tx, settings.network_class, resolved=resolved, most=most)
        for one in found:
            click.echo(one.line())
        if not found:
            click.echo("nothing is the matter")
        return any(one.severity is Severity.CRITICAL and one.resolved_at is None for one in found)

    raise SystemExit(1 if _ask(work) else 0)


@alert.command()
@click.argument("alert_id", type=int)
def show(alert_id: int) -> None:
    """One alert as it is told, and what became of each message."""

    async def work(database: Database, settings: Settings) -> None:
        from qtg_dagster.domain.alert_messages import message_of
        from qtg_dagster.domain.alerts import What
        from qtg_dagster.store.alert_deliveries import deliveries_of
        from qtg_dagster.upkeep.alerts.acting import find_alert

        async with database.transaction() as tx:
            found = await find_alert(tx, settings.network_class, alert_id)
            sent = await deliveries_of(tx, alert_id)
        what = What.RESOLVED if found.resolved_at else What.OPENED
        message = message_of(what, found, runbook=settings.notify_runbook_url, web_url=settings.notify_web_url)
        click.echo(f"{message.title}\n{message.body}")
        if found.acknowledged_by:
            until = f" until {found.acknowledged_until:%Y-%m-%d %H:%M:%S} UTC" if found.acknowledged_until else ""
            click.echo(f"acknowledged by {found.acknowledged_by}{until}: {found.acknowledge_reason}")
        for one in sent:
            click.echo(one.line())
        if not sent:
            click.echo("no message was sent")

    _ask(work)


@alert.command()
@click.argument("alert_id", type=int)
@_by
@click.option("--reason", required=True, help="what is being done about it")
@click.option("--for", "seconds", type=_Duration(), default="4h", show_default=True, help="30m, 4h, 2d")
def ack(alert_id: int, actor: str, reason: str, seconds: float) -> None:
    """Say that somebody knows of ALERT_ID: nobody is reminded of it for so long, unless it gets worse."""

    async def work(database: Database, settings: Settings) -> None:
        from qtg_dagster.upkeep.alerts.acting import acknowledge_alert

        until = await acknowledge_alert(database, settings, alert_id, actor=actor, reason=reason, seconds=seconds)
        click.echo(f"alert {alert_id} is acknowledged by {actor} until {until:%Y-%m-%d %H:%M:%S} UTC")

    _ask(work)


@alert.command()
@click.argument("alert_id", type=int)
@_by
@click.option("--reason", required=True, help="what was found and done")
def resolve(alert_id: int, actor: str, reason: str) -> None:
    """End ALERT_ID, if it is one that was raised, such as drift; all others end with their condition."""

    async def work(database: Database, settings: Settings) -> None:
        from qtg_dagster.upkeep.alerts.acting import resolve_raised

        await resolve_raised(database, settings, alert_id, actor=actor, reason=reason)
        click.echo(f"alert {alert_id} is over")

    _ask(work)


@alert.command("test")
@click.argument("channel")
@click.option("--by", "actor", required=True, help="who tries it; stands in the message")
def test_(channel: str, actor: str) -> None:
    """Send a real message to CHANNEL, and say what it answered."""

    async def work(database: Database, settings: Settings) -> bool:
        from qtg_dagster.upkeep.alerts.acting import try_channel

        answer = await try_channel(database, settings, channel, actor=actor)
        click.echo(f"{channel} took the message" if answer.taken else f"{channel} did not take it: {answer.reason}")
        if not settings.notify_enabled:
            click.echo("alerts are not sent: MG_NOTIFY_ENABLED is false", err=True)
        return answer.taken

    raise SystemExit(0 if _ask(work) else 1)


def _ask(work: Callable[[Database, Settings], Awaitable[T]]) -> T:
    from qtg_dagster.domain.errors import QtgError
    from qtg_dagster.host.environment import machine_settings
    from qtg_dagster.logs import configure_logs
    from qtg_dagster.store.database import Database

    async def ask() -> T:
        configure_logs()
        settings = machine_settings()
        database = Database(settings.database_url, pool_size=2)
        try:
            return await work(database, settings)
        finally:
            await database.close()

    try:
        return asyncio.run(ask())
    except QtgError as error:
        raise click.ClickException(str(error)) from error
