"""What the ledger is told of an attempt, from the inventory's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qtg_dagster.domain.amounts import Asset
from qtg_dagster.domain.errors import ConfigRefResolutionError
from qtg_dagster.domain.ledger import entries_of
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.refs import resolve_config
from qtg_dagster.inventory import Inventory


@dataclass(frozen=True, slots=True)
class InventoryRegister:
    """The inventory, as the ledger asks it."""

    inventory: Inventory

    def asset(self, key: str) -> Asset | None:
        """The asset of this key."""
        entry = self.inventory.assets.get(key)
        return entry.asset() if entry else None

    def address(self, chain: str, account: str) -> str | None:
        """The address of an account of ours on a chain."""
        entry = self.inventory.accounts.get(account)
        return entry.address if entry and entry.chain == chain else None

    def venue_at(self, chain: str, address: str) -> str | None:
        """The venue that this is our deposit address of."""
        for key, venue in self.inventory.venues.items():
            if venue.deposit_addresses.get(chain, "").lower() == address.lower():
                return key
        return None

    def native(self, chain: str) -> str | None:
        """Key of a chain's native coin."""
        entry = self.inventory.chains.get(chain)
        return entry.native_asset if entry else None


def ledger_document(
    plan: Plan,
    node_key: str,
    config: Mapping[str, Any],
    inventory: Inventory,
    *,
    intent: Mapping[str, Any],
    input_params: Mapping[str, Any],
) -> str | None:
    """JSON for an attempt's `ledger`: what departs and what may follow, or why nothing is posted; None for looks."""
    node = plan.node(node_key)
    if not node.has_side_effect:
        return None
    found = entries_of(
        plan, node, config, InventoryRegister(inventory), lambda given: _filled(given, intent, input_params)
    )
    return found.model_dump_json()


def _filled(config: Mapping[str, Any], intent: Mapping[str, Any], input_params: Mapping[str, Any]) -> dict[str, Any]:
    """A config with what the movement itself says; references to other nodes stay as they are."""
    filled = {}
    for name, value in config.items():
        try:
            filled.update(resolve_config({name: value}, intent=intent, input_params=input_params, completed_refs={}))
        except ConfigRefResolutionError:
            filled[name] = value
    return filled
