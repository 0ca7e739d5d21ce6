"""What the engine works with, given by the composition root."""

from __future__ import annotations

from dataclasses import dataclass, field

from qtg_dagster.domain.clock import Clock, SystemClock
from qtg_dagster.engine.persist import Recorder
from qtg_dagster.engine.ports import Store
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine's dependencies, none of them global."""

    store: Store
    settings: Settings
    inventory: Inventory
    executors: ExecutorRegistry
    signers: SignerRegistry
    clock: Clock = field(default_factory=SystemClock)
    outcomes: Recorder = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcomes", Recorder(self.store))

    @property
    def database(self) -> Database:
        """Where people's decisions are written."""
        return self.store.database
