"""`qtg transfer`: have an amount moved without naming a template, by the same functions as the web UI's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import run

if TYPE_CHECKING:
    from qtg_dagster.engine.parts import Engine
    from qtg_dagster.store.capital_transfers import Transfer

_by = click.option("--by", "actor", required=True, help="who decides; goes into the audit trail")
_reason = click.option("--reason", required=True, help="why; goes into the audit trail")


@click.group()
def transfer() -> None:
    """Request capital transfers, look at them, and decide on those that stopped."""


@transfer.command()
@click.argument("amount")
@click.argument("asset")
@click.argument("source")
@click.argument("destination")
@click.option("--by", "requested_by", required=True, help="who asks for it")
@click.option("--reason", default="", help="why")
@click.option("--key", "idempotency_key", default=None, help="same key and request = the same transfer")
@click.option("--wanted-by", default=None, metavar="TIME", help="e.g. 2026-03-01T12:00:00Z; later, people are told")
def request(
    amount: str,
    asset: str,
    source: str,
    destination: str,
    requested_by: str,
    reason: str,
    idempotency_key: str | None,
    wanted_by: str | None,
) -> None:
    """Have AMOUNT of ASSET moved from SOURCE to DESTINATION, each a venue or an account of the inventory.

    Its movement then waits for approval: `qtg movement approve`.
    """

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.capital_transfers import TransferOrder, request_capital_transfer

        order = TransferOrder.read(
            {
                "source": source,
                "destination": destination,
                "asset": asset,
                "amount": amount,
                "requested_by": requested_by,
                "reason": reason,
                "idempotency_key": idempotency_key,
                "wanted_by": wanted_by,
            }
        )
        receipt = await request_capital_transfer(engine, order)
        click.echo(receipt.transfer_id)
        if receipt.movement_id is not None:
            click.echo(f"{receipt.state}; movement {receipt.movement_id}", err=True)
        if receipt.attention is not None:
            click.echo(f"{receipt.state}: {receipt.attention}", err=True)
        if not engine.settings.capital_transfer_followup_enabled:
            off = "MG_CAPITAL_TRANSFER_FOLLOWUP_ENABLED is not true here"
            click.echo(f"{off}: without the schedule, `qtg transfer follow-up` looks after it", err=True)

    run(work)


@transfer.command("list")
@click.option("--open", "open_only", is_flag=True, help="only those that have not ended")
@click.option("--most", default=20, show_default=True, type=click.IntRange(1, 1000))
def list_(open_only: bool, most: int) -> None:
    """Transfers, newest first."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.capital_transfers import read_transfers

        async with engine.database.transaction() as tx:
            found = await read_transfers(tx, engine.settings.network_class, open_only=open_only, most=most)
        for each in found:
            click.echo(_line(each))
        if not found:
            click.echo("no capital transfer is open" if open_only else "there is no capital transfer yet")

    run(work)


@transfer.command()
@click.argument("transfer_id")
def show(transfer_id: str) -> None:
    """One transfer: its movements, what it waits for, and what can be done."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.domain.capital_transfers import ADVICE, TransferState
        from qtg_dagster.store.capital_transfers import read_transfer
        from qtg_dagster.store.core_group import core_group
        from qtg_dagster.treasury.transfer_decisions import read_possible_actions
        from qtg_dagster.treasury.transfer_waiting import waiting_for

        network_class = engine.settings.network_class
        group = await core_group(engine.database, network_class)
        async with engine.database.transaction() as tx:
            found = await read_transfer(tx, network_class, transfer_id)
            possible = await read_possible_actions(engine, tx, found)
            waits = ""
            if found.state is TransferState.MOVING and found.movement_id is not None:
                waits = await waiting_for(engine, tx, found.movement_id, group)
        click.echo(_line(found))
        wanted = f", wanted by {found.wanted_by:%Y-%m-%d %H:%M:%S} UTC" if found.wanted_by else ""
        click.echo(f"  asked for by {found.requested_by}: {found.reason or 'no reason given'}{wanted}")
        for attempt in found.attempts:
            made = f"movement {attempt.movement_id}, {attempt.template_key} by route {attempt.route}"
            click.echo(f"  attempt {attempt.attempt_no}: {made}")
        if waits:
            click.echo(f"  {waits}")
        if found.attention is not None and found.attention_kind is not None:
            click.echo(f"  needs attention ({found.attention_kind}): {found.attention}")
            click.echo(f"  to do: {ADVICE[found.attention_kind]}")
        click.echo(f"  possible now: {', '.join(possible) or 'nothing'}")

    run(work)


@transfer.command()
@click.argument("transfer_id")
@_by
@_reason
def retry(transfer_id: str, actor: str, reason: str) -> None:
    """Have a transfer that stopped moved by another movement, which waits for approval."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.transfer_decisions import retry_capital_transfer

        _told(await retry_capital_transfer(engine, transfer_id, actor=actor, reason=reason))

    run(work)


@transfer.command()
@click.argument("transfer_id")
@_by
@_reason
def cancel(transfer_id: str, actor: str, reason: str) -> None:
    """Call a transfer off of which nothing has moved, and its movement with it."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.transfer_decisions import cancel_capital_transfer

        _told(await cancel_capital_transfer(engine, transfer_id, actor=actor, reason=reason))

    run(work)


@transfer.command()
@click.argument("transfer_id")
@_by
@_reason
def close(transfer_id: str, actor: str, reason: str) -> None:
    """End a transfer whose movement ended after it may have moved money; say where that is now."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.transfer_decisions import close_capital_transfer

        _told(await close_capital_transfer(engine, transfer_id, actor=actor, reason=reason))

    run(work)


@transfer.command("follow-up")
def follow_up() -> None:
    """Look at every open transfer once, as the schedule follow_up_capital_transfers does."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.transfer_followup import follow_up_pending_capital_transfers

        done = await follow_up_pending_capital_transfers(engine)
        said = ", ".join(f"{count} {what}" for what, count in done.changes.items()) or "nothing new"
        click.echo(f"looked at {done.looked_at}: {said}")

    run(work)


def _told(found: Transfer) -> None:
    movement = f"; movement {found.movement_id}" if found.movement_id and found.finished_at is None else ""
    click.echo(f"{found.transfer_id} {found.state}{movement}")
    if found.attention is not None:
        click.echo(f"needs attention: {found.attention}", err=True)


def _line(found: Transfer) -> str:
    when = f"{found.created_at:%Y-%m-%d %H:%M:%S}"
    alarm = f"  ! {found.attention_kind}" if found.attention_kind else ""
    return f"{found.transfer_id}  {found.state:15}  {found}  {when}{alarm}"
