"""What a breaker can stand on, and what a node is covered by: pure rules over scope names like `lane:cex`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import split_reference

_EXECUTOR = re.compile(r"exec\.([a-z][a-z0-9_]*)\..+")


class ScopeKind(StrEnum):
    """What the key of a scope names."""

    NETWORK = "network"  # everything of a network class
    LANE = "lane"  # every executor `exec.<lane>.*`
    VENUE = "venue"  # an exchange account of the inventory
    CHAIN = "chain"  # a chain by its CAIP-2 name


def scope(kind: ScopeKind, key: str) -> str:
    """The name of a scope, e.g. `chain:eip155:1`."""
    return f"{kind}:{key}"


def node_scopes(
    network_class: str,
    executor_key: str | None,
    config: Mapping[str, Any],
    chain_of_account: Mapping[str, str],
) -> tuple[str, ...]:
    """All scopes that cover a node, as far as its config says before anything has run.

    Venues stand under `venue` and `*_venue`, chains under `chain` and `*_chain`, and an own account under `account`
    and `*_account` brings its chain. A value that is still a reference names nothing.
    """
    scopes = {scope(ScopeKind.NETWORK, network_class)}
    lane = _EXECUTOR.fullmatch(executor_key or "")
    if lane:
        scopes.add(scope(ScopeKind.LANE, lane.group(1)))
    for name, value in config.items():
        if not isinstance(value, str) or not value or split_reference(value)[0]:
            continue
        match name.rpartition("_")[2]:
            case "venue":
                scopes.add(scope(ScopeKind.VENUE, value))
            case "chain":
                scopes.add(scope(ScopeKind.CHAIN, value))
            case "account" if value in chain_of_account:
                scopes.add(scope(ScopeKind.CHAIN, chain_of_account[value]))
    return tuple(sorted(scopes))


def known_scopes(
    network_class: str, executor_keys: Iterable[str], venues: Iterable[str], chains: Iterable[str]
) -> tuple[str, ...]:
    """Every scope that a breaker can stand on here."""
    lanes = {found.group(1) for key in executor_keys if (found := _EXECUTOR.fullmatch(key))}
    return (
        scope(ScopeKind.NETWORK, network_class),
        *(scope(ScopeKind.LANE, lane) for lane in sorted(lanes)),
        *(scope(ScopeKind.VENUE, venue) for venue in sorted(venues)),
        *(scope(ScopeKind.CHAIN, chain) for chain in sorted(chains)),
    )


def check_scope(text: str, known: Iterable[str]) -> str:
    """The scope itself; raises `InvalidInput` with the known ones for any other."""
    found = tuple(known)
    if text not in found:
        raise InvalidInput("scope", f"there is nothing here that is called {text!r}", f"Use one of {', '.join(found)}.")
    return text


@dataclass(frozen=True, slots=True)
class Breaker:
    """A breaker that is not closed: it holds back the READY nodes under its scope, or lets them through in turns."""

    id: int
    scope: str
    opened_at: datetime
    opened_by: str
    reason: str
    held: int  # READY nodes that it holds back now
    let_through: int
    released_at: datetime | None = None
    released_by: str | None = None
    per_minute: int | None = None

    @property
    def released(self) -> bool:
        return self.released_at is not None

    def told(self) -> str:
        """One line: since when, by whom, why, and what it holds back."""
        nodes = "1 node" if self.held == 1 else f"{self.held} nodes"
        line = f"open since {self.opened_at:%Y-%m-%d %H:%M:%S} UTC by {self.opened_by}: {self.reason}"
        if not self.released:
            return f"{line}; holds back {nodes}"
        release = f"released by {self.released_by} at {self.per_minute} a minute, {self.let_through} let through"
        return f"{line}; {release}, {nodes} to go"
