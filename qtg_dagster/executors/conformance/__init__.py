"""The conformance kit: proves that an executor keeps the contract, or names the clause it breaks."""

from __future__ import annotations

from qtg_dagster.executors.conformance.bench import Bench, Declared, Knob
from qtg_dagster.executors.conformance.case import Limits
from qtg_dagster.executors.conformance.clauses import CLAUSES, Clause
from qtg_dagster.executors.conformance.kit import verify_executor
from qtg_dagster.executors.conformance.verdicts import Finding, Report, Verdict

__all__ = [
    "CLAUSES",
    "Bench",
    "Clause",
    "Declared",
    "Finding",
    "Knob",
    "Limits",
    "Report",
    "Verdict",
    "verify_executor",
]
