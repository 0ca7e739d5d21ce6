"""Everything known about a claimed node, read in the statement that claims it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import structlog
from pydantic import ValidationError

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.errors import PlanInvalid
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.domain.work import Claim, Sibling, Work
from qtg_dagster.store.database import Database, OnDatabase
from qtg_dagster.store.plan_documents import parse_plan
from qtg_dagster.store.statements import native

log = structlog.get_logger("qtg.store")


class WorkOrders(OnDatabase):
    """What the work orders of claimed nodes are made of."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._read_with_claim: dict[Claim, dict[str, Any]] = {}

    def keep_for(self, claims: Sequence[Claim], rows: Sequence[dict[str, Any]]) -> None:
        """What was read in the statement that claimed; the next `load_works` of these claims is answered with it."""
        self._read_with_claim.update(zip(claims, rows, strict=True))

    async def load_works(self, claims: Sequence[Claim]) -> list[Work]:
        """The work of several claims, in the order of the claims; what was not read with them is in one statement.

        One that is gone, or whose stored plan is no plan any more, is left out: it must not keep the others from work.
        """
        kept = [self._read_with_claim.pop(claim, None) for claim in claims]
        rows = [row for row in kept if row is not None]
        if len(rows) < len(claims):
            rows = await self._read(claims)
        plans = {row["plan_version_id"]: _readable_plan(row) for row in rows if row["plan"] is not None}
        found = {row["node_id"]: (row, plans[row["plan_version_id"]]) for row in rows}
        asked = [(claim, *found[claim.node_id]) for claim in claims if claim.node_id in found]
        return [_work(claim, row, plan) for claim, row, plan in asked if plan is not None]

    async def _read(self, claims: Sequence[Claim]) -> list[dict[str, Any]]:
        bound = {"node_ids": [claim.node_id for claim in claims]}
        async with self._database.connection() as connection:
            return await (await connection.execute(native("choose_nodes", "work_of_chosen"), bound)).fetchall()


def _readable_plan(row: dict[str, Any]) -> Plan | None:
    try:
        return parse_plan(row["plan"])
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
        approved_at=row["approved_at"],
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
