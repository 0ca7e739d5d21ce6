"""What a check of `qtg doctor` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from qtg_dagster.settings import Settings


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, what was found, and what to do when it is not fit."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""

    def line(self) -> str:
        """`ok   name — detail`, or `FAIL name — detail — what to do`."""
        parts = [f"{'ok  ' if self.ok else 'FAIL'} {self.name}", " ".join(self.detail.split())]
        return " — ".join(parts if self.ok or not self.remedy else [*parts, self.remedy])


#: Looks without changing anything. An exception it raises becomes a finding of its name.
Check = Callable[[Settings], Iterator[Finding]]
