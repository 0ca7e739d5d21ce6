"""Remote executors from the inventory's entries."""

from __future__ import annotations

from qtg_dagster.executors.remote.executor import RemoteExecutor, Timeouts
from qtg_dagster.executors.remote.terms import Terms
from qtg_dagster.inventory import RemoteExecutorEntry


def build_remote_executor(key: str, entry: RemoteExecutorEntry) -> RemoteExecutor:
    """Raises `ConfigurationError` naming the entry's field when address, secret or CA file is not fit."""
    return RemoteExecutor(
        key,
        entry.url,
        entry.secret.read(f"executors.{key}.secret"),
        terms=Terms(
            submit_grace_seconds=entry.submit_grace_seconds,
            serialization_key=entry.serialization_key,
            signs=entry.signs,
        ),
        ca_file=entry.ca_file,
        timeouts=Timeouts.model_validate(entry.timeouts),
    )
