"""The chain of audit events, when somebody has changed or taken away one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.store.database import Database
from qtg_dagster.upkeep.alerts.looking import Find, Look, Source

#: What is wrong with the chain of a network class; None when it holds.
AuditChainProblem: TypeAlias = Callable[[Database, str], Awaitable[str | None]]


def source_over(problem_of: AuditChainProblem) -> Source:
    """The source over a question that says what is wrong with the chain, or None."""

    async def find(look: Look) -> list[Condition]:
        return conditions(await problem_of(look.database, look.network_class))

    asking: Find = find
    return Source("audit chain", frozenset({AlertKind.AUDIT_CHAIN}), asking)


def conditions(problem: str | None) -> list[Condition]:
    """The alert of a broken chain."""
    if problem is None:
        return []
    return [
        Condition(
            AlertKind.AUDIT_CHAIN,
            "audit chain",
            Severity.CRITICAL,
            "the audit trail was changed: its chain does not hold",
            {"problem": problem},
            ("keep the database as it is, and find out who has owner's rights on it",),
            ("qtg audit verify",),
            "workers",
        )
    ]
