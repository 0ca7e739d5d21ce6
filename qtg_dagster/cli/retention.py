"""`qtg retention`: what is deleted when, what is in the way, and what stayed of a movement."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qtg_dagster.domain.retention import KindReport
    from qtg_dagster.engine.parts import Engine
    from qtg_dagster.settings import Settings


@click.group()
def retention() -> None:
    """Delete what has settled and is past its window; see what remains and why."""


@retention.command()
def status() -> None:
    """What is kept how long, what could go now, and why movements that are old enough stay."""
    from qtg_dagster.host.environment import machine_settings

    asyncio.run(_status(machine_settings()))


async def _status(settings: Settings) -> None:
    from qtg_dagster.domain.retention import Kind, windows
    from qtg_dagster.store.database import Database
    from qtg_dagster.store.retention import held_movements
    from qtg_dagster.upkeep.retention import COUNTED

    _show(await _look(settings), past="could go")
    window = windows(settings.retention_days, settings.retention_windows)[Kind.MOVEMENTS]
    if window is None:
        return
    database = Database(settings.database_url, pool_size=1)
    try:
        async with database.transaction() as transaction:
            held = await held_movements(transaction, window, COUNTED)
    finally:
        await database.close()
    for why, (count, one) in held.reasons.items():
        click.echo(f"held: {count} movements, {why}; one is {one}")


@retention.command("run")
@click.option("--dry-run", is_flag=True, help="Count what could go, and delete nothing.")
def run_(dry_run: bool) -> None:
    """One pass, now, beside whatever runs; exit 1 when something failed or remains."""
    from qtg_dagster.host.environment import machine_settings

    settings = machine_settings()
    if dry_run:
        _show(asyncio.run(_look(settings)), past="could go")
        return
    reports = asyncio.run(_pass(settings))
    _show(reports, past="remain")
    raise SystemExit(1 if any(each.failed or each.remaining for each in reports) else 0)


@retention.command()
@click.argument("request_id")
def show(request_id: str) -> None:
    """What stayed of a movement whose rows were deleted; its lines are in `qtg ledger show`."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.retention import read_tombstone

        async with engine.database.transaction() as transaction:
            stone = await read_tombstone(transaction, engine.settings.network_class, request_id)
        click.echo(f"{stone.request_id} {stone.request_state} {stone.template_key} version {stone.template_version}")
        click.echo(f"asked for by {stone.requested_by}, approved by {', '.join(stone.approved_by) or 'nobody'}")
        if stone.rejected_by:
            click.echo(f"rejected by {', '.join(stone.rejected_by)}")
        click.echo(f"created {stone.created_at}, finished {stone.finished_at}, deleted {stone.deleted_at}")
        click.echo(f"idempotency key {stone.idempotency_key or 'none'}, plan {stone.compiled_plan_hash}")
        for node in stone.nodes.values():
            click.echo(f"  {node['key']}: {node['state']}")

    run(work)


async def _look(settings: Settings) -> list[KindReport]:
    from qtg_dagster.store.database import Database
    from qtg_dagster.upkeep.retention import open_places, survey

    database = Database(settings.database_url, pool_size=2)
    try:
        async with open_places(settings, database, _dagster_url(settings), lambda _: None) as places:
            return await survey(settings, places)
    finally:
        await database.close()


async def _pass(settings: Settings) -> list[KindReport]:
    from collections.abc import Sequence as Ids

    from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager

    from qtg_dagster.host.paths import state_home
    from qtg_dagster.store.database import Database
    from qtg_dagster.upkeep.retention import open_places, retain

    printed = LocalComputeLogManager(str(state_home() / "dagster" / "storage"))

    def forget(run_ids: Ids[str]) -> None:
        for run_id in run_ids:
            printed.delete_logs(prefix=[run_id])

    database = Database(settings.database_url, pool_size=2)
    try:
        async with open_places(settings, database, _dagster_url(settings), forget) as places:
            return await retain(settings, places)
    finally:
        await database.close()


def _dagster_url(settings: Settings) -> str:
    from qtg_dagster.host.database import dagster_url, database_urls

    return dagster_url(database_urls(settings).dagster)


def _show(reports: Sequence[KindReport], *, past: str) -> None:
    from qtg_dagster.upkeep.retention import COUNTED

    click.echo(f"{'what':<20} {'kept':>8}  {'deleted':>8} {past:>9} {'held':>6} {'failed':>6}  oldest past its window")
    for each in reports:
        kept = "for good" if each.window is None else f"{each.window.days} d"
        more = "+" if each.remaining >= COUNTED else ""
        oldest = f"{each.oldest:%Y-%m-%d %H:%M}" if each.oldest else ""
        remaining = "no table" if each.absent else f"{each.remaining}{more}"
        click.echo(
            f"{each.kind:<20} {kept:>8}  {each.deleted:>8} {remaining:>9} {each.held:>6} {each.failed:>6}  {oldest}"
        )
        if each.problem:
            click.echo(f"  {each.problem}", err=True)
