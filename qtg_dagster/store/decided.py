"""What a person's decision does to the nodes of a locked movement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.requests import Decision, LockedRequest, NodeMove
from qtg_dagster.domain.states import NodeState
from qtg_dagster.store.database import InTransaction
from qtg_dagster.store.decision_rows import decision_parameters, move_parameters
from qtg_dagster.store.sessions import execute_and_commit
from qtg_dagster.store.statements import native, statement


class Decided(InTransaction):
    """What a person's decision does to a locked movement."""

    async def decide(self, request: LockedRequest, decision: Decision) -> None:
        """Write a decision about a locked movement in one statement: moves, journal, approval, callbacks and audit.

        The last word of its transaction: one of our own commits here.
        """
        bound = decision_parameters(request, decision)
        if self._ours:
            await execute_and_commit(self._tx, native("decide"), bound)
        else:
            await self._tx.execute(statement("decide"), bound)

    async def move_nodes(
        self,
        request: LockedRequest,
        keys: Sequence[str],
        state: NodeState,
        *,
        step_kind: StepKind,
        facts: Mapping[str, Any],
        actor: str | None = None,
        refs: Mapping[str, Any] | None = None,
    ) -> None:
        """Move nodes of a locked movement by a person's decision or as its consequence; the journal says which."""
        if keys:
            moves = [NodeMove(key, state, step_kind, facts, actor, refs or {}) for key in keys]
            await self._tx.execute(statement("decide"), move_parameters(request, moves))

    async def wake(self, *kinds: str) -> None:
        """Let the drains of these kinds look at once when this transaction commits."""
        for kind in kinds:
            await self._tx.execute(text("SELECT pg_notify('qtg_wake', :kind)"), {"kind": kind})
