"""`qtg movement`: create, decide on and look at movements, by the same functions as the web UI's jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from qtg_dagster.composition import Platform
    from qtg_dagster.engine.parts import Engine
    from qtg_dagster.store.views import MovementView


@click.group()
def movement() -> None:
    """Create, approve, reject, cancel and look at movements."""


@movement.command()
@click.argument("template_key")
@click.option("--param", "-p", "parameters", multiple=True, metavar="NAME=VALUE", help="a template parameter")
@click.option("--bind", "-b", "bindings", multiple=True, metavar="ROLE=SIGNER", help="which signer signs for a role")
@click.option("--by", "requested_by", required=True, help="who asks for it")
@click.option("--reason", default="", help="why")
@click.option("--key", "idempotency_key", default=None, help="same key and order = the same movement")
@click.option("--callback-url", default=None, help="who is told of every change")
def create(
    template_key: str,
    parameters: tuple[str, ...],
    bindings: tuple[str, ...],
    requested_by: str,
    reason: str,
    idempotency_key: str | None,
    callback_url: str | None,
) -> None:
    """Create a movement of TEMPLATE_KEY; it then waits for approval."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.orders import MovementOrder
        from qtg_dagster.engine.requests import create_movement

        order = MovementOrder.read(
            {
                "template_key": template_key,
                "parameters": _pairs("--param", parameters),
                "bindings": _pairs("--bind", bindings),
                "requested_by": requested_by,
                "reason": reason,
                "idempotency_key": idempotency_key,
                "callback_url": callback_url,
            }
        )
        receipt = await create_movement(engine, order)
        click.echo(receipt.request_id)
        for key, health in receipt.unwell.items():
            click.echo(f"warning: {key} is {health}", err=True)
        click.echo(f"waits for approval until {receipt.expires_at}; plan {receipt.compiled_plan_hash[:16]}", err=True)

    run(work)


@movement.command()
@click.argument("request_id")
@click.option("--by", "actor", required=True, help="who approves")
@click.option("--reason", default="")
def approve(request_id: str, actor: str, reason: str) -> None:
    """Approve a movement; with the last approval it needs, its first nodes start at once."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.requests import approve_movement

        approval = await approve_movement(engine, request_id, actor=actor, reason=reason)
        click.echo(f"{request_id} {approval}")

    run(work)


@movement.command()
@click.argument("request_id")
@click.option("--by", "actor", required=True, help="who rejects")
@click.option("--reason", required=True)
def reject(request_id: str, actor: str, reason: str) -> None:
    """Refuse a movement for good."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.requests import reject_movement

        await reject_movement(engine, request_id, actor=actor, reason=reason)
        click.echo(f"rejected {request_id}")

    run(work)


@movement.command()
@click.argument("request_id")
@click.option("--by", "actor", required=True, help="who cancels")
@click.option("--reason", required=True)
def cancel(request_id: str, actor: str, reason: str) -> None:
    """Stop a movement of which nothing is in flight."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.requests import cancel_movement

        await cancel_movement(engine, request_id, actor=actor, reason=reason)
        click.echo(f"cancelled {request_id}")

    run(work)


@movement.command()
@click.argument("request_id")
@click.option("--by", "actor", required=True, help="who decides")
@click.option("--reason", required=True)
def resume(request_id: str, actor: str, reason: str) -> None:
    """Let a movement in MANUAL_INTERVENTION go on."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.interventions import resume_movement

        await resume_movement(engine, request_id, actor=actor, reason=reason)
        click.echo(f"resumed {request_id}")

    run(work)


@movement.command()
@click.argument("request_id")
@click.argument("node_key")
@click.option("--by", "actor", required=True, help="who decides")
@click.option("--reason", required=True, help="what has changed since it failed")
def retry(request_id: str, node_key: str, actor: str, reason: str) -> None:
    """Have the FAILED node NODE_KEY done again, as a new attempt."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.interventions import retry_node

        await retry_node(engine, request_id, node_key, actor=actor, reason=reason)
        click.echo(f"retrying {node_key} of {request_id}")

    run(work)


@movement.command()
@click.argument("request_id")
@click.argument("node_key")
@click.option("--by", "actor", required=True, help="who decides")
@click.option("--reason", required=True, help="why the step is not needed")
def skip(request_id: str, node_key: str, actor: str, reason: str) -> None:
    """Take the manual step NODE_KEY out; what waited for it goes on."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.interventions import skip_node

        await skip_node(engine, request_id, node_key, actor=actor, reason=reason)
        click.echo(f"skipped {node_key} of {request_id}")

    run(work)


@movement.command()
@click.argument("request_id")
@click.argument("node_key")
@click.argument("reference")
@click.option("--by", "actor", required=True, help="who decides")
@click.option("--reason", required=True, help="where it comes from")
def adopt(request_id: str, node_key: str, reference: str, actor: str, reason: str) -> None:
    """Attach REFERENCE, a transaction hash or a venue's withdrawal id, to the node NODE_KEY."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.adoption import adopt

        seen = await adopt(engine, request_id, node_key, reference, actor=actor, reason=reason)
        click.echo(f"{node_key} of {request_id} is {_refs(seen.provider_refs)}")

    run(work)


@movement.command("complete")
@click.argument("request_id")
@click.argument("node_key")
@click.option("--by", "actor", required=True, help="who did it")
@click.option("--note", required=True, help="what was done, and where it can be seen")
@click.option("--ref", "refs", multiple=True, metavar="NAME=VALUE", help="what later nodes may reference")
def complete_manual(request_id: str, node_key: str, actor: str, note: str, refs: tuple[str, ...]) -> None:
    """Record that the manual step NODE_KEY was done."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.requests import complete_manual_node

        values = _pairs("--ref", refs)
        await complete_manual_node(engine, request_id, node_key, actor=actor, note=note, provider_refs=values)
        click.echo(f"completed {node_key} of {request_id}")

    run(work)


@movement.command("list")
@click.option("--most", default=20, show_default=True, type=click.IntRange(1, 1000))
def list_movements(most: int) -> None:
    """Movements, newest first."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.views import read_movements

        async with engine.database.transaction() as transaction:
            movements = await read_movements(transaction, engine.settings.network_class, most=most)
        for found in movements:
            click.echo(_line(found))

    run(work)


@movement.command()
@click.argument("request_id")
@click.option("--journal", is_flag=True, help="every recorded step, with its facts")
def show(request_id: str, journal: bool) -> None:
    """One movement: its nodes, their references and errors."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.permission import read_allowed_actions
        from qtg_dagster.store.breakers import held_nodes
        from qtg_dagster.store.views import read_movement, read_steps

        async with engine.database.transaction() as transaction:
            found = await read_movement(transaction, engine.settings.network_class, request_id)
            allowed = await read_allowed_actions(engine, transaction, request_id)
            held = await held_nodes(transaction, request_id)
            steps = await read_steps(transaction, request_id) if journal else []
        click.echo(_line(found))
        for node in found.nodes:
            click.echo(
                f"  {node.node_key:20} {node.node_state:10} attempt {node.attempt_no}  {_refs(node.provider_refs)}"
            )
            if node.error_message:
                click.echo(f"  {'':20} {node.error_code}: {node.error_message}")
            if node.node_key in held:
                click.echo(f"  {'':20} held back by {held[node.node_key]}: see `qtg breaker list`")
        click.echo(f"  approvals {found.approvals}; plan {found.compiled_plan_hash}")
        click.echo(f"  possible now: {', '.join(map(str, allowed)) or 'nothing'}")
        for step in steps:
            moved = f"{step.from_state} -> {step.to_state}" if step.to_state else ""
            click.echo(
                f"{step.recorded_at:%H:%M:%S.%f} {step.node_key:20} {step.step_kind:9} {moved:24} {step.actor or ''}"
            )
            click.echo(f"    {json.dumps(step.facts)}")

    run(work)


def run(work: Callable[[Engine], Awaitable[None]]) -> None:
    """Run one action on the engine of an open platform; an error of ours becomes one line and exit code 1."""
    run_on_platform(lambda platform: work(platform.engine))


def run_on_platform(work: Callable[[Platform], Awaitable[None]]) -> None:
    """The same for an action that needs more of the platform."""
    from qtg_dagster.composition import open_platform
    from qtg_dagster.domain.errors import QtgError
    from qtg_dagster.host.environment import machine_settings

    async def action() -> None:
        async with open_platform(machine_settings(), pool_size=2) as platform:
            await work(platform)

    try:
        asyncio.run(action())
    except QtgError as error:
        raise click.ClickException(str(error)) from error


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        pairs[name] = value
    return pairs


def _line(found: MovementView) -> str:
    amount = f"{found.intent.get('amount', '')} {found.intent.get('asset', '')}"
    when = f"{found.created_at:%Y-%m-%d %H:%M:%S}"
    return f"{found.request_id}  {found.request_state:22} {found.template_key:28} {amount:>18}  {when}"


def _refs(refs: dict[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(refs.items()))
