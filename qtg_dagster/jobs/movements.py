"""Making templates and movements, as jobs for the launchpad."""

import dagster as dg
from pydantic import Field

from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.requests import StoredPlan
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import create_movement as create
from qtg_dagster.engine.requests import publish_template
from qtg_dagster.inventory import Inventory
from qtg_dagster.jobs.pictures import dag_picture, table
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.store.templates import PlanVersions
from qtg_dagster.treasury.template_documents import read_plan
from resources import PlatformResource


class NewMovement(dg.Config):
    """A movement to create; it waits for approval and moves nothing by itself."""

    template_key: str = Field(description="which template, e.g. chain_transfer_usdc")
    template_version: int | None = Field(default=None, ge=1, description="null = the newest")
    parameters: dict[str, str] = Field(default={}, description='values of the template, e.g. {"amount": "25"}')
    bindings: dict[str, str] = Field(default={}, description="signer role -> signer key; the account's own is default")
    requested_by: str = Field(description="who asks")
    reason: str = Field(default="", description="why")
    idempotency_key: str | None = Field(default=None, description="the same key and order give the same movement")
    callback_url: str | None = Field(default=None, description="who is told of changes")
    approval_ttl_seconds: int | None = Field(default=None, description="null = MG_APPROVAL_TTL_SECONDS")


class Templates(dg.Config):
    """Templates to publish."""

    document: str = Field(default="", description="one template as YAML or JSON; empty = the sandbox's samples")
    published_by: str = Field(default="launchpad", min_length=1, description="who publishes; goes into the audit trail")


@dg.op(name="create", out=dg.Out(dg.Nothing), description="Store a movement that waits for approval.")
async def create_one(context: dg.OpExecutionContext, config: NewMovement, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        order = MovementOrder.read(config.model_dump())
        async with platform.open() as parts:
            receipt = await create(parts.engine, order)
            async with parts.database.transaction() as transaction:
                stored = await PlanVersions(transaction).require_plan(order.template_key, receipt.template_version)
    context.add_output_metadata(
        {
            "request id": receipt.request_id,
            "created": receipt.created,
            "template": f"{order.template_key} version {receipt.template_version}",
            "compiled plan hash": receipt.compiled_plan_hash,
            "approval digest": receipt.approval_digest,
            **({"may not work": ", ".join(f"{k} is {v}" for k, v in receipt.unwell.items())} if receipt.unwell else {}),
            "approve before": str(receipt.expires_at) if receipt.expires_at else "any time",
            "plan": dg.MetadataValue.md(plan_picture(stored.plan)),
        }
    )


@dg.op(out=dg.Out(dg.Nothing), description="Store template versions; the same template again changes nothing.")
async def publish(context: dg.OpExecutionContext, config: Templates, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            plans = read_plans(config.document, parts.engine.inventory)
            stored = [await publish_template(parts.engine, plan, actor=config.published_by) for plan in plans]
    context.add_output_metadata(
        {
            "templates": dg.MetadataValue.md(table(("template", "version", "title"), [_row(one) for one in stored])),
            **{one.plan.template_key: dg.MetadataValue.md(plan_picture(one.plan)) for one in stored},
        }
    )


def read_plans(document: str, inventory: Inventory) -> tuple[Plan, ...]:
    """The template in the document, or the sandbox's samples; raises `InvalidInput` for the first wrong field."""
    from qtg_dagster.sandbox.plans import sample_plans

    return (read_plan(document),) if document.strip() else sample_plans(inventory)


def _row(stored: StoredPlan) -> tuple[object, ...]:
    return stored.plan.template_key, stored.version, stored.plan.title


def plan_picture(plan: Plan) -> str:
    """The plan's DAG with who does what."""
    labels = {node.node_key: f"[{node.node_kind}] {node.node_key}  {node.executor_key or ''}" for node in plan.nodes}
    return dag_picture(labels, [(edge.from_node, edge.to_node) for edge in plan.edges])


@dg.job(executor_def=dg.in_process_executor, description=create_one.description)
def create_movement() -> None:
    create_one()


@dg.job(executor_def=dg.in_process_executor, description=publish.description)
def publish_templates() -> None:
    publish()


movement_jobs = (create_movement, publish_templates)
