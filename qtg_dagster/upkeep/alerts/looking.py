"""What every source of alerts is given, and what a source is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from qtg_dagster.domain.alerts import AlertKind, Condition
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database

#: What a source reads at most of one kind: far more than people can work on.
MOST = 1000


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the database, by whoever takes it. `known` = details of open alerts by (kind, key).

    A source asks in short transactions of its own, one after the other: a look never holds two connections.
    """

    database: Database
    settings: Settings
    known: Mapping[tuple[str, str], Mapping[str, Any]]

    @property
    def network_class(self) -> str:
        return self.settings.network_class


Find = Callable[[Look], Awaitable[list[Condition]]]


@dataclass(frozen=True, slots=True)
class Source:
    """Finds all that is the matter of these kinds: an alert of them that it does not find is over."""

    name: str
    kinds: frozenset[AlertKind]
    find: Find
