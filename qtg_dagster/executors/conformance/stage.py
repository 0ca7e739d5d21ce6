"""A bench made ready for one check after another."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.executors.conformance.bench import Bench
from qtg_dagster.executors.conformance.case import Case, Limits
from qtg_dagster.executors.conformance.verdicts import Exempt


@dataclass(frozen=True, slots=True)
class Stage:
    """What a check is given."""

    bench: Bench
    limits: Limits

    async def case(self) -> Case:
        """A new work order at a well-behaved provider."""
        await self.bench.calm()
        return Case(self.bench, self.limits, await self.bench.context())

    def needs_an_effect(self) -> None:
        """Raise `Exempt` for an executor that only looks."""
        if not self.bench.declared.acts:
            raise Exempt("declared to only look: submit sends nothing")
