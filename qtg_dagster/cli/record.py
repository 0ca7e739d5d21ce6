"""`qtg record`: every transfer on venues' records, by the same functions as the web UI's jobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from qtg_dagster.cli.movements import run, run_on_platform

if TYPE_CHECKING:
    from qtg_dagster.composition import Platform
    from qtg_dagster.engine.parts import Engine

_by = click.option("--by", "actor", required=True, help="who decides; goes into the audit trail")
_reason = click.option("--reason", required=True, help="why; goes into the audit trail")
_venue = click.option("--venue", default=None, help="a venue of the inventory")
_most = click.option("--most", default=50, show_default=True, type=click.IntRange(1, 10_000))


@click.group()
def record() -> None:
    """See what venues' own records show of withdrawals and deposits, and answer for what no movement made."""


@record.command("list")
@click.option("--unmatched", is_flag=True, help="only those that no movement made and nobody answers for")
@click.option("--disputed", is_flag=True, help="only those of which the venue shows another end now")
@click.option("--open", "open_only", is_flag=True, help="only those that have not ended")
@_venue
@click.option("--coin", default=None, help="the venue's name of a coin")
@click.option("--before", default=None, metavar="TIME", help="e.g. 2026-03-01T00:00:00Z: older ones")
@_most
def list_(
    unmatched: bool, disputed: bool, open_only: bool, venue: str | None, coin: str | None, before: str | None, most: int
) -> None:
    """Transfers on record, newest first."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.record_views import Wanted, list_transfers
        from qtg_dagster.treasury.record_decisions import moment

        wanted = Wanted(venue, coin, unmatched, disputed, open_only, moment(before) if before else None, most)
        async with engine.database.transaction() as tx:
            found = await list_transfers(tx, engine.settings.network_class, wanted)
        for row in found:
            click.echo(_line(row))
        if not found:
            click.echo("no such transfer is on record")

    run(work)


@record.command()
@click.argument("number", type=int)
def show(number: int) -> None:
    """One transfer: the venue's own row, what changed when, and the movement that made it."""

    async def work(engine: Engine) -> None:
        import json

        from qtg_dagster.domain.errors import NotFound
        from qtg_dagster.store.record_views import read_events, read_transfer

        async with engine.database.transaction() as tx:
            row = await read_transfer(tx, engine.settings.network_class, number)
            if row is None:
                raise NotFound(f"there is no transfer {number} on record")
            events = await read_events(tx, number)
        click.echo(_line(row))
        for name, value in _facts(row).items():
            if value is not None:
                click.echo(f"  {name}: {value}")
        for event in events:
            who = f" by {event.actor}" if event.actor else ""
            click.echo(f"  {event.recorded_at:%Y-%m-%d %H:%M:%S}  {', '.join(event.changes)}{who}: {_change(event)}")
        click.echo(f"  the venue's row: {json.dumps(row.raw, ensure_ascii=False)}")

    run(work)


@record.command()
@click.option("--incomplete", is_flag=True, help="only those that could not be read whole")
@_venue
@_most
def days(incomplete: bool, venue: str | None, most: int) -> None:
    """Days that are not closed: open ones may still change, incomplete ones could not be read whole."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.domain.record_days import DayState
        from qtg_dagster.store.record_views import list_days

        states = [DayState.INCOMPLETE.value] if incomplete else [DayState.OPEN.value, DayState.INCOMPLETE.value]
        async with engine.database.transaction() as tx:
            found = await list_days(tx, engine.settings.network_class, states, venue_key=venue, most=most)
        for each in found:
            counted = f"{each.transfers} transfers, {each.open_transfers} open"
            click.echo(f"{each.day}  {each.venue_key}  {each.state}  {counted}  {each.problem or ''}".rstrip())
        if not found:
            click.echo("every day that was read is closed")

    run(work)


@record.command()
@click.argument("venue")
@click.argument("first")
@click.argument("last")
def read(venue: str, first: str, last: str) -> None:
    """Read the days from FIRST to LAST (e.g. 2026-03-01) of VENUE's record, as a backfill in the web UI does."""

    async def work(platform: Platform) -> None:
        from qtg_dagster.domain.errors import InvalidInput
        from qtg_dagster.domain.record_days import BACKFILL
        from qtg_dagster.treasury.record_ingest import Order, RecordKeeper, days_between

        if venue not in platform.records:
            known = ", ".join(sorted(platform.records)) or "none"
            raise InvalidInput("venue", f"{venue!r} is not in the inventory", f"Use one of {known}.")
        engine = platform.engine
        keeper = RecordKeeper(platform.database, engine.settings.network_class, platform.records[venue], engine.clock)
        wrong = 0
        async for outcomes in keeper.stretches(Order(days_between(first, last), BACKFILL)):
            for day in outcomes:
                wrong += not day.whole
                told = f"{day.transfers} transfers, {day.new} new, {day.changed} changed, {day.unmatched} unmatched"
                if day.transfers or not day.whole:
                    click.echo(f"{day.day}  {day.state}  {told}  {day.problem or ''}".rstrip())
        if wrong:
            raise SystemExit(1)

    run_on_platform(work)


@record.command()
@click.argument("numbers", nargs=-1, type=int, metavar="[NUMBER]...")
@_venue
@click.option("--before", default=None, metavar="TIME", help="with --venue: all unmatched ones older than this")
@_by
@_reason
def acknowledge(numbers: tuple[int, ...], venue: str | None, before: str | None, actor: str, reason: str) -> None:
    """Answer for transfers that no movement made: "this was ours by hand"."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.record_decisions import Answered, acknowledge_transfers

        answered = Answered.read(numbers, venue, before)
        count = await acknowledge_transfers(
            engine.database, engine.settings.network_class, answered, actor=actor, reason=reason
        )
        click.echo(f"{count} acknowledged")

    run(work)


@record.command()
@click.argument("number", type=int)
@click.option("--stands", type=click.Choice(["ours", "venues"]), required=True, help="which of the two ends stands")
@_by
@_reason
def settle(number: int, stands: str, actor: str, reason: str) -> None:
    """Say which end of a disputed transfer stands: the one on our record, or the one the venue shows now."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.record_decisions import settle_transfer

        await settle_transfer(
            engine.database, engine.settings.network_class, number, stands=stands, actor=actor, reason=reason
        )
        click.echo(f"transfer {number} is settled: {stands} stands")

    run(work)


def _line(row: Any) -> str:
    whose = f"{row.request_id} {row.matched_node_key}" if row.request_id else "no movement"
    whose = f"acknowledged by {row.acknowledged_by}" if row.acknowledged_by and not row.request_id else whose
    alarm = f"  ! now {row.disputed_status}" if row.disputed_status else ""
    amount = f"{row.amount.normalize():f} {row.coin}"
    return (
        f"{row.id:>6}  {row.occurred_at:%Y-%m-%d %H:%M:%S}  {row.venue_key}  {row.kind:10}  {row.status:9}  "
        f"{amount}  {whose}{alarm}"
    )


def _facts(row: Any) -> dict[str, object]:
    to = row.address if row.memo is None else f"{row.address} memo {row.memo}"
    return {
        "id at the venue": row.row_key,
        "network": row.network,
        "address": to,
        "transaction": row.tx_id,
        "fee": f"{row.fee.normalize():f}",
        "status there": row.raw_status,
        "our id": row.client_id,
        "made by": f"{row.request_id} {row.matched_node_key}, by {row.matched_by}" if row.request_id else None,
        "acknowledged": f"by {row.acknowledged_by}: {row.acknowledge_reason}" if row.acknowledged_by else None,
        "disputed": f"now {row.disputed_status} ({row.disputed_raw_status})" if row.disputed_status else None,
        "first seen": _time(row.first_seen_at),
        "last seen": _time(row.last_seen_at),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _change(event: Any) -> str:
    before = event.before or {}
    differing = [name for name, value in event.after.items() if before.get(name) != value]
    return ", ".join(f"{name} {before.get(name)} -> {event.after[name]}" for name in differing) or "nothing else"
