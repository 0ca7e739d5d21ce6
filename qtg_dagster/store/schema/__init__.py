"""The tables, declared once; migrations are checked against them."""

from qtg_dagster.store.schema import (
    balances,
    breakers,
    core_group,
    evm,
    journal,
    ledger,
    movements,
    outboxes,
    plans,
    proposals,
    registries,
    retention,
    retention_functions,
    roles,
    triggers,
    velocity,
    views,
)
from qtg_dagster.store.schema.base import SCHEMA, metadata

__all__ = [
    "SCHEMA",
    "balances",
    "breakers",
    "core_group",
    "evm",
    "journal",
    "ledger",
    "metadata",
    "movements",
    "outboxes",
    "plans",
    "proposals",
    "registries",
    "retention",
    "retention_functions",
    "roles",
    "triggers",
    "velocity",
    "views",
]
