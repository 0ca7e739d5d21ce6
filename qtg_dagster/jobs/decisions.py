"""What people decide, as jobs for the launchpad: approve, reject, cancel, resume, retry, adopt, and manual steps."""

import dagster as dg
from pydantic import Field

from qtg_dagster.composition import Platform
from qtg_dagster.engine.adoption import adopt
from qtg_dagster.engine.interventions import resume_movement as resume
from qtg_dagster.engine.interventions import retry_node as retry
from qtg_dagster.engine.interventions import skip_node as skip
from qtg_dagster.engine.permission import read_allowed_actions
from qtg_dagster.engine.requests import approve_movement as approve
from qtg_dagster.engine.requests import cancel_movement as cancel
from qtg_dagster.engine.requests import complete_manual_node
from qtg_dagster.engine.requests import reject_movement as reject
from qtg_dagster.jobs.pictures import dag_picture, node_label
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.store.breakers import held_nodes
from qtg_dagster.store.views import read_movement
from resources import PlatformResource


class Decision(dg.Config):
    """A decision on one movement."""

    request_id: str = Field(description="the movement's id, as create_movement shows it")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(default="", description="why; goes into the audit trail")


class ReasonedDecision(dg.Config):
    """A decision that must be explained."""

    request_id: str = Field(description="the movement's id")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="why; goes into the audit trail")


class Retry(dg.Config):
    """A failed node that is to be done again."""

    request_id: str = Field(description="the movement's id")
    node_key: str = Field(description="the FAILED node")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="what has changed since; goes into the audit trail")


class Skip(dg.Config):
    """A manual step that is not needed."""

    request_id: str = Field(description="the movement's id")
    node_key: str = Field(description="the manual node, READY or BLOCKED")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="why it is not needed; goes into the audit trail")


class Adoption(dg.Config):
    """Something that exists already and is what a node was to do."""

    request_id: str = Field(description="the movement's id")
    node_key: str = Field(description="the READY, UNKNOWN or FAILED node")
    reference: str = Field(min_length=1, description="the transaction's hash, or the venue's id of the withdrawal")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="where it comes from; goes into the audit trail")


class ManualStep(dg.Config):
    """A manual step that a person has done."""

    request_id: str = Field(description="the movement's id")
    node_key: str = Field(description="the manual node, e.g. manual_check")
    actor: str = Field(min_length=1, description="who did it")
    note: str = Field(min_length=1, description="what was done and where it can be seen")
    provider_refs: dict[str, str] = Field(default={}, description="values that later nodes refer to")


@dg.op(
    name="approve",
    out=dg.Out(dg.Nothing),
    description="Approve a movement: with the last approval it needs, its first nodes become READY.",
)
async def approve_one(context: dg.OpExecutionContext, config: Decision, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            approval = await approve(parts.engine, config.request_id, actor=config.actor, reason=config.reason)
            context.log.info(str(approval))
            await show_movement(context, parts, config.request_id)


@dg.op(name="reject", out=dg.Out(dg.Nothing), description="Refuse a movement for good.")
async def reject_one(context: dg.OpExecutionContext, config: ReasonedDecision, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await reject(parts.engine, config.request_id, actor=config.actor, reason=config.reason)
            await show_movement(context, parts, config.request_id)


@dg.op(name="cancel", out=dg.Out(dg.Nothing), description="Stop a movement before anything else of it is started.")
async def cancel_one(context: dg.OpExecutionContext, config: ReasonedDecision, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await cancel(parts.engine, config.request_id, actor=config.actor, reason=config.reason)
            await show_movement(context, parts, config.request_id)


@dg.op(name="resume", out=dg.Out(dg.Nothing), description="Let a movement in MANUAL_INTERVENTION go on.")
async def resume_one(context: dg.OpExecutionContext, config: ReasonedDecision, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await resume(parts.engine, config.request_id, actor=config.actor, reason=config.reason)
            await show_movement(context, parts, config.request_id)


@dg.op(name="retry", out=dg.Out(dg.Nothing), description="Have a FAILED node done again, as a new attempt.")
async def retry_one(context: dg.OpExecutionContext, config: Retry, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await retry(parts.engine, config.request_id, config.node_key, actor=config.actor, reason=config.reason)
            await show_movement(context, parts, config.request_id)


@dg.op(name="complete", out=dg.Out(dg.Nothing), description="Record that a person did a manual step.")
async def complete_one(context: dg.OpExecutionContext, config: ManualStep, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await complete_manual_node(
                parts.engine,
                config.request_id,
                config.node_key,
                actor=config.actor,
                note=config.note,
                provider_refs=config.provider_refs,
            )
            await show_movement(context, parts, config.request_id)


@dg.op(name="skip", out=dg.Out(dg.Nothing), description="Take a manual step out; what waited for it goes on.")
async def skip_one(context: dg.OpExecutionContext, config: Skip, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await skip(parts.engine, config.request_id, config.node_key, actor=config.actor, reason=config.reason)
            await show_movement(context, parts, config.request_id)


@dg.op(name="adopt", out=dg.Out(dg.Nothing), description="Attach an existing transaction or withdrawal to a node.")
async def adopt_one(context: dg.OpExecutionContext, config: Adoption, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await adopt(
                parts.engine,
                config.request_id,
                config.node_key,
                config.reference,
                actor=config.actor,
                reason=config.reason,
            )
            await show_movement(context, parts, config.request_id)


async def show_movement(context: dg.OpExecutionContext, parts: Platform, request_id: str) -> None:
    """Put the movement as it stands now on the run's page."""
    async with parts.database.transaction() as transaction:
        movement = await read_movement(transaction, parts.settings.network_class, request_id)
        allowed = await read_allowed_actions(parts.engine, transaction, request_id)
        held = await held_nodes(transaction, request_id)
    labels = {node.node_key: node_label(node.node_key, node.node_state) for node in movement.nodes}
    context.add_output_metadata(
        {
            "request id": movement.request_id,
            "request state": movement.request_state.value,
            "approvals": movement.approvals,
            "possible now": ", ".join(map(str, allowed)) or "nothing",
            "intent": dg.MetadataValue.json(movement.intent),
            "compiled plan hash": movement.compiled_plan_hash,
            "nodes": dg.MetadataValue.md(dag_picture(labels, movement.edges)),
            **({"held back": "; ".join(f"{node} by {scopes}" for node, scopes in held.items())} if held else {}),
        }
    )


@dg.job(executor_def=dg.in_process_executor, description=approve_one.description)
def approve_movement() -> None:
    approve_one()


@dg.job(executor_def=dg.in_process_executor, description=reject_one.description)
def reject_movement() -> None:
    reject_one()


@dg.job(executor_def=dg.in_process_executor, description=cancel_one.description)
def cancel_movement() -> None:
    cancel_one()


@dg.job(executor_def=dg.in_process_executor, description=resume_one.description)
def resume_movement() -> None:
    resume_one()


@dg.job(executor_def=dg.in_process_executor, description=retry_one.description)
def retry_node() -> None:
    retry_one()


@dg.job(executor_def=dg.in_process_executor, description=complete_one.description)
def complete_manual_step() -> None:
    complete_one()


@dg.job(executor_def=dg.in_process_executor, description=skip_one.description)
def skip_manual_step() -> None:
    skip_one()


@dg.job(executor_def=dg.in_process_executor, description=adopt_one.description)
def adopt_into_node() -> None:
    adopt_one()


decision_jobs = (
    approve_movement,
    reject_movement,
    cancel_movement,
    resume_movement,
    retry_node,
    complete_manual_step,
    skip_manual_step,
    adopt_into_node,
)
