"""What a template version must fulfil before it is stored, whoever brings it."""

from __future__ import annotations

from qtg_dagster.domain.errors import Conflict, InvalidInput
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.requests import Publisher, StoredPlan
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Decisions
from qtg_dagster.store.database import Transaction


async def install_template(
    engine: Engine, plan: Plan, transaction: Transaction | None = None, *, actor: str = "unnamed"
) -> StoredPlan:
    """Store a template version without asking anybody: for what has been approved, and for a sandbox's samples.

    Raises `InvalidInput` when one of its actions has no registered executor.
    """
    check_executors(engine, plan)
    async with engine.store.deciding(transaction) as tx:
        return await tx.publish_plan(plan, by=Publisher(actor, engine.settings.network_class))


def check_executors(engine: Engine, plan: Plan) -> None:
    """Raise `InvalidInput` for an action that nobody here does: it would wait for ever."""
    for node in plan.nodes:
        if node.executor_key is not None and node.executor_key not in engine.executors:
            raise InvalidInput(
                f"nodes.{node.node_key}.executor_key",
                f"no executor is registered as {node.executor_key}",
                "Register it, or name one of: " + ", ".join(key for key, _ in engine.executors.items()),
            )


async def check_unchanged(tx: Decisions, plan: Plan) -> None:
    """Raise `Conflict` unless this very plan is the template's newest version already."""
    newest = await tx.find_plan(plan.template_key)
    if newest is not None and newest.plan.whole_text == plan.whole_text:
        return
    based_on = newest.version if newest else 0
    raise Conflict(
        f"template {plan.template_key} changes by approved proposals alone here (MG_TEMPLATES_BY_PROPOSAL_ONLY); "
        f"propose it: qtg template propose FILE --based-on {based_on}, or the job propose_template"
    )
