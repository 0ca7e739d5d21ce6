"""`qtg callback`: what movements' owners were told, by the same functions as the web UI's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import run

if TYPE_CHECKING:
    from qtg_dagster.engine.parts import Engine

_by = click.option("--by", "actor", required=True, help="who decides; goes into the audit trail")
_reason = click.option("--reason", required=True, help="why; goes into the audit trail")


@click.group()
def callback() -> None:
    """Look at callbacks, try again those that were given up, tell some once more."""


@callback.command("list")
@click.option("--status", type=click.Choice(["pending", "delivered", "dlq"]), help="only these")
@click.option("--movement", "request_id", metavar="ID", help="only those of this movement")
@click.option("--receiver", metavar="HOST[:PORT]", help="only those of this receiver")
@click.option("--limit", "most", default=50, show_default=True, type=click.IntRange(1, 10_000))
def list_(status: str | None, request_id: str | None, receiver: str | None, most: int) -> None:
    """Callbacks, the newest first."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.domain.callbacks import CallbackStatus
        from qtg_dagster.store.callback_desk import list_callbacks

        async with engine.database.transaction() as transaction:
            found = await list_callbacks(
                transaction,
                engine.settings.network_class,
                status=CallbackStatus(status) if status else None,
                request_id=request_id,
                receiver=receiver,
                most=most,
            )
        for each in found:
            click.echo(each.line())
        if not found:
            click.echo("no callback")

    run(work)


@callback.command()
@click.argument("event_id")
def show(event_id: str) -> None:
    """One callback, with the body as it is sent."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.domain.errors import NotFound
        from qtg_dagster.store.callback_desk import find_callback

        async with engine.database.transaction() as transaction:
            found = await find_callback(transaction, engine.settings.network_class, event_id)
        if found is None:
            raise NotFound(f"there is no callback {event_id!r} in network class {engine.settings.network_class}")
        click.echo(found.line())
        for name in ("callback_url", "created_at", "last_attempt_at", "next_attempt_at", "delivered_at", "resends"):
            click.echo(f"{name:16} {getattr(found, name)}")
        click.echo(found.body)

    run(work)


@callback.command()
@click.option("--movement", "request_id", metavar="ID", help="only those of this movement")
@click.option("--receiver", metavar="HOST[:PORT]", help="only those of this receiver")
@click.option("--all", "everything", is_flag=True, help="all that is in the dlq")
@_by
@_reason
def redrive(request_id: str | None, receiver: str | None, everything: bool, actor: str, reason: str) -> None:
    """Try callbacks anew that nobody tries any more (the dlq), under the same ids."""
    if not (request_id or receiver or everything):
        raise click.UsageError("name --movement, --receiver or --all")

    async def work(engine: Engine) -> None:
        from qtg_dagster.callbacks.redriving import redrive_callbacks

        many = await redrive_callbacks(engine, request_id=request_id, receiver=receiver, actor=actor, reason=reason)
        click.echo(f"redriven: {many}")

    run(work)


@callback.command()
@click.option("--event", "event_id", metavar="ID", help="this one")
@click.option("--movement", "request_id", metavar="ID", help="all of this movement")
@click.option("--transaction", "transaction_hash", metavar="HASH", help="all of the movements it is part of")
@_by
@_reason
def resend(event_id: str | None, request_id: str | None, transaction_hash: str | None, actor: str, reason: str) -> None:
    """Tell once more, under the same ids, what was told already; a receiver that has acted on it knows it again."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.callbacks.redriving import resend_callbacks

        resent = await resend_callbacks(
            engine,
            event_id=event_id,
            request_id=request_id,
            transaction_hash=transaction_hash,
            actor=actor,
            reason=reason,
        )
        click.echo(f"told once more: {resent.again}; on their way already: {resent.waiting}")

    run(work)
