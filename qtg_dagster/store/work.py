"""Everything known about a claimed node, read in one statement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import structlog
from pydantic import ValidationError

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.errors import NotFound, PlanInvalid
from qtg_dagster.domain.plans import Plan, PlanNode
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.store.claims import Claim
from qtg_dagster.store.database import Database
from qtg_dagster.store.statements import native

log = structlog.get_logger("qtg.store")


@dataclass(frozen=True, slots=True)
class Sibling:
    """A node of the same movement, as far as others may depend on it."""

    state: NodeState
    refs: dict[str, Any]
    artifacts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """A claimed node with its movement, its plan and its neighbours."""

    claim: Claim
    request_state: RequestState
    intent: dict[str, Any]
    input_params: dict[str, Any]
    resolved_bindings: dict[str, str]
    compiled_plan_hash: str
    approval_digest: str
    template_version: int
    plan: Plan
    node: PlanNode
    node_state: NodeState
    attempt_no: int
    provider_refs: dict[str, Any]
    looks: int  # looks at this state with this error code, the present ones included
    error_code: str | None
    facts_digest: str | None
    started_at: datetime | None  # of the first attempt
    observed_since: datetime | None  # the present attempt began, or was found to be accepted after all
    submitted_at: datetime | None
    database_now: datetime
    siblings: dict[str, Sibling]
    prepared: PreparedAction | None

    def in_state(self, state: NodeState) -> Work:
        """This work after a move of ours that the database has confirmed."""
        return replace(self, node_state=state)

    @property
    def node_states(self) -> dict[str, NodeState]:
        return {key: sibling.state for key, sibling in self.siblings.items()}


@lru_cache(maxsize=512)
def _plan(text: str) -> Plan:
    """Plans are immutable, so the same stored text is parsed once; an edited row is another text."""
    return Plan.model_validate_json(text)


async def load_works(database: Database, claims: Sequence[Claim]) -> list[Work]:
    """Read the work of several claims in one statement, in the order of the claims.

    One that is gone, or whose stored plan is no plan any more, is left out: it must not keep the others from work.
    """
    bound = {"node_ids": [claim.node_id for claim in claims]}
    async with database.connection() as connection:
        rows = await (await connection.execute(native("load_work"), bound)).fetchall()
    plans = {row["plan_version_id"]: _readable_plan(row) for row in rows if row["plan"] is not None}
    found = {row["node_id"]: (row, plans[row["plan_version_id"]]) for row in rows}
    asked = [(claim, *found[claim.node_id]) for claim in claims if claim.node_id in found]
    return [_work(claim, row, plan) for claim, row, plan in asked if plan is not None]


def _readable_plan(row: dict[str, Any]) -> Plan | None:
    try:
        return _plan(row["plan"])
    except (ValidationError, PlanInvalid) as error:
        log.error("stored plan is not a plan", plan_version=row["plan_version_id"], error=str(error))  # noqa: TRY400
        return None


async def load_work(database: Database, claim: Claim) -> Work:
    """Read the work of a claim; raises `NotFound` when the node or its plan is gone."""
    works = await load_works(database, [claim])
    if not works:
        raise NotFound(f"node {claim.node_id} does not exist, or its plan cannot be read")
    return works[0]


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
