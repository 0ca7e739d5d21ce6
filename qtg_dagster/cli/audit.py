"""`qtg audit`: who did what, the proof that nobody has changed it since, and what auditors take away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import run

if TYPE_CHECKING:
    from datetime import datetime

    from qtg_dagster.engine.parts import Engine
    from qtg_dagster.upkeep.audit_trail import TrailReport

_PATHS = click.Path(path_type=Path, exists=True)
_WHEN = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])


@click.group()
def audit() -> None:
    """Show, verify and export the audit trail."""


@audit.command()
@click.option("--checkpoint", "checkpoints", type=_PATHS, multiple=True, help="a checkpoint file, or a folder of them")
@click.option("--public-key", "public_keys", multiple=True, help="64 hex digits: who must have signed them")
def verify(checkpoints: tuple[Path, ...], public_keys: tuple[str, ...]) -> None:
    """Read the whole chain beside its outbox; exit 1 and name each bad row when something is wrong.

    Without checkpoints the chain is held against itself, the outbox and the last verification alone: whoever owns the
    database can rewrite all three.
    """
    from qtg_dagster.domain.errors import InvalidInput
    from qtg_dagster.signatures import PUBLIC_KEY

    if bool(checkpoints) != bool(public_keys):
        raise InvalidInput("--public-key", "goes with --checkpoint", "Give both or none of them.")
    for key in public_keys:
        if PUBLIC_KEY.fullmatch(key) is None:
            raise InvalidInput("--public-key", "is no key", "Give 64 hex digits, as `qtg audit checkpoint` shows them.")

    async def work(engine: Engine) -> None:
        from qtg_dagster.upkeep.audit_verification import verify_against

        _tell(await verify_against(engine.database, engine.settings, checkpoints, public_keys))

    run(work)


def _tell(report: TrailReport) -> None:
    for one in report.breaks:
        click.echo(f"WRONG  {one.told()}")
    if report.many_breaks > len(report.breaks):
        click.echo(f"WRONG  and {report.many_breaks - len(report.breaks)} more")
    if report.waiting.entries:
        oldest = report.waiting.oldest_seconds
        click.echo(f"{report.waiting.entries} entries wait for promotion, the oldest for {oldest:.0f} s")
    if not report.right:
        raise SystemExit(1)
    click.echo(f"the audit trail of {report.network_class} is right: {report.rows} rows, head {report.head.row_hash}")


@audit.command("list")
@click.option("--subject", help="a movement's id, a breaker's scope, an asset, ...")
@click.option("--actor", help="who did it")
@click.option("--action", help="what was done, e.g. approve")
@click.option("--since", type=_WHEN, help="UTC; what was done from then on")
@click.option("--most", type=click.IntRange(1, 10_000), default=50, show_default=True, help="the newest so many")
def list_(subject: str | None, actor: str | None, action: str | None, since: datetime | None, most: int) -> None:
    """Who did what, oldest first."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.audit_trail import Wanted, list_events

        wanted = Wanted(subject, actor, action, since)
        events = await list_events(engine.database, engine.settings.network_class, wanted, most=most)
        for one in events:
            what = f"{one.action} {one.subject_type} {one.subject_id}"
            click.echo(f"{one.sequence:>8}  {one.occurred_at[:19]}  {one.actor:16} {what}  {one.details}")
        if not events:
            click.echo("no such event", err=True)

    run(work)


@audit.command()
@click.option("--after", type=click.IntRange(0), default=0, help="begin behind this row")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), default="-", show_default=True)
def export(after: int, out: Path) -> None:
    """The chain as JSON lines, with all that is hashed: whoever has them needs neither QTG nor the database."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.domain.audit_chain import export_line
        from qtg_dagster.store.audit_chain import chain_head, read_events

        network_class = engine.settings.network_class
        until, last = await chain_head(engine.database, network_class), after
        with click.open_file(str(out), "w", encoding="utf-8", atomic=str(out) != "-") as file:
            while page := await read_events(
                engine.database, network_class, after=last, until=until.sequence, most=5000
            ):
                file.writelines(json.dumps(export_line(one.event)) + "\n" for one in page)
                last = page[-1].event.sequence

    run(work)


@audit.command()
def checkpoint() -> None:
    """Verify what is new and sign the head, into MG_AUDIT_CHECKPOINT_FOLDER."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.upkeep.audit_checkpoints import checkpoint_place
        from qtg_dagster.upkeep.audit_verification import sign_head

        verified = await sign_head(engine.database, engine.settings)
        place = checkpoint_place(engine.settings)
        if verified.checkpoint is None or place is None:
            click.echo("nothing to sign: the chain has no row yet")
            return
        click.echo(f"signed: {verified.checkpoint}\npublic_key: {place.public_key}")

    run(work)


@audit.command()
def promote() -> None:
    """Promote what waits, now, beside whatever does; for when no delivery drain runs."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.database import Database
        from qtg_dagster.upkeep.audit_promoter import promote_all

        settings = engine.settings
        sender = Database(settings.sender_database_url or settings.database_url, pool_size=1)
        try:
            click.echo(f"{await promote_all(sender, settings.network_class)} entries promoted")
        finally:
            await sender.close()

    run(work)
