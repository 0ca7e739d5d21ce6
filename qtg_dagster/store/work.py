"""Everything known about a claimed node, read in one statement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import structlog
from pydantic import ValidationError

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.errors import PlanInvalid
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.domain.work import Claim, Sibling, Work
from qtg_dagster.store.database import OnDatabase
from qtg_dagster.store.statements import native

log = structlog.get_logger("qtg.store")


class WorkOrders(OnDatabase):
    """What the work orders of claimed nodes are made of."""

    async def load_works(self, claims: Sequence[Claim]) -> list[Work]:
        """Read the work of several claims in one statement, in the order of the claims.

        One that is gone, or whose stored plan is no plan any more, is left out: it must not keep the others from work.
        """
        bound = {"node_ids": [claim.node_id for claim in claims]}
        async with self._database.connection() as connection:
            rows = await (await connection.execute(native("load_work"), bound)).fetchall()
        plans = {row["plan_version_id"]: _readable_plan(row) for row in rows if row["plan"] is not None}
        found = {row["node_id"]: (row, plans[row["plan_version_id"]]) for row in rows}
        asked = [(claim, *found[claim.node_id]) for claim in claims if claim.node_id in found]
        return [_work(claim, row, plan) for claim, row, plan in asked if plan is not None]


@lru_cache(maxsize=512)
def _plan(text: str) -> Plan:
    """Plans are immutable, so the same stored text is parsed once; an edited row is another text."""
    return Plan.model_validate_json(text)


def _readable_plan(row: dict[str, Any]) -> Plan | None:
    try:
        return _plan(row["plan"])
    except (ValidationError, PlanInvalid) as error:
        log.error("stored plan is not a plan", plan_version=row["plan_version_id"], error=str(error))  # noqa: TRY400
        return None


def _work(claim: Claim, row: dict[str, Any], plan: Plan) -> Work:
    siblings = json.loads(row["siblings"]).items()
    return Work(
        claim=claim,
        request_state=RequestState(row["request_state"]),
        intent=json.loads(row["intent"]),
        input_params=json.loads(row["input_params"]),
        resolved_bindings=json.loads(row["resolved_bindings"]),
        compiled_plan_hash=row["compiled_plan_hash"],
        approval_digest=row["approval_digest"],
        template_version=row["template_version"],
        plan=plan,
        node=plan.node(row["node_key"]),
        node_state=NodeState(row["node_state"]),
        attempt_no=row["attempt_no"],
        provider_refs=json.loads(row["provider_refs"]),
        looks=row["looks"],
        error_code=row["error_code"],
        facts_digest=row["facts_digest"],
        started_at=row["started_at"],
        observed_since=row["observed_since"],
        submitted_at=row["submitted_at"],
        database_now=row["database_now"],
        siblings={key: Sibling(NodeState(state), refs, artifacts) for key, (state, refs, artifacts) in siblings},
        prepared=PreparedAction.model_validate_json(row["prepared"]) if row["prepared"] else None,
    )
