"""Executors as a resource."""

import dagster as dg

from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory


class ExecutorsResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Who does what: the lanes' executors, by exact key."""

    def register_more(self, executors: ExecutorRegistry, inventory: Inventory) -> None:
        """Called after the lanes have registered theirs. Override to add executors of your own."""
