"""What the engine must know of a remote executor without asking it, and whether the service agrees."""

from __future__ import annotations

from pydantic import Field

from qtg_dagster.domain.plans import Frozen
from qtg_dagster.executors.remote.documents import Description

#: As long as a service lets a delayed request in.
DEFAULT_GRACE_SECONDS = 60.0


class Terms(Frozen):
    """The inventory's word for a remote executor."""

    submit_grace_seconds: float = Field(default=DEFAULT_GRACE_SECONDS, ge=0)
    serialization_key: str | None = None
    signs: bool | None = Field(default=None, description="null = not known beforehand")

    def differences(self, key: str, service: Description) -> list[str]:
        """In which points the service describes itself otherwise, each as a sentence."""
        found = []
        if service.executor_key != key:
            found.append(f"the service hosts {service.executor_key}, not {key}")
        if service.submit_grace_seconds != self.submit_grace_seconds:
            said = f"submit_grace_seconds: the service says {service.submit_grace_seconds:g}"
            found.append(f"{said}, the inventory {self.submit_grace_seconds:g}")
        if service.serializes_by_config:
            if self.serialization_key is None:
                found.append("serialization_key: the service has one by node; name one for all in the inventory")
        elif service.serialization_key != self.serialization_key:
            said = f"serialization_key: the service says {service.serialization_key}"
            found.append(f"{said}, the inventory {self.serialization_key}")
        if service.signs != self.signs:
            found.append(f"signs: the service says {service.signs}, the inventory {self.signs}")
        return found
