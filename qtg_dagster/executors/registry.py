"""Flat tables of executors and signers, looked up by exact key and by nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Generic, TypeVar

from qtg_dagster.domain.errors import ConfigurationError, NotFound
from qtg_dagster.executors.contract import Adopts, Executor, Signer

T = TypeVar("T")


class Registry(Generic[T]):
    """Exact key -> implementation. Keys are registered once."""

    def __init__(self, kind: str, pattern: str, shape: type[T]) -> None:
        self._kind = kind
        self._pattern = re.compile(pattern)
        self._shape = shape
        self._entries: dict[str, T] = {}

    def register(self, key: str, entry: T) -> None:
        """Add an entry; raises `ConfigurationError` for a malformed or taken key or a wrong shape."""
        if not self._pattern.fullmatch(key):
            raise ConfigurationError(f"{key!r} is not a {self._kind} key ({self._pattern.pattern})")
        if key in self._entries:
            raise ConfigurationError(f"{self._kind} {key} is registered twice")
        if not isinstance(entry, self._shape):
            raise ConfigurationError(f"{key}: {type(entry).__name__} has not all methods of {self._shape.__name__}")
        self._entries[key] = entry

    def resolve(self, key: str) -> T:
        """The entry under exactly this key; raises `NotFound` with the known keys."""
        try:
            return self._entries[key]
        except KeyError:
            known = ", ".join(sorted(self._entries)) or "none"
            raise NotFound(f"no {self._kind} is registered as {key!r}; known: {known}") from None

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def items(self) -> Iterator[tuple[str, T]]:
        """All entries, by key."""
        return iter(sorted(self._entries.items()))


class ExecutorRegistry(Registry[Executor]):
    """Executors by `exec.{lane}.{role}`."""

    def __init__(self) -> None:
        super().__init__("executor", r"exec(\.[a-z][a-z0-9_]*){2,}", Executor)  # type: ignore[type-abstract]
        self._adopting: set[str] = set()

    def register(self, key: str, entry: Executor) -> None:
        super().register(key, entry)
        if isinstance(entry, Adopts):  # asked of every node of a movement that is decided on; looking is slow
            self._adopting.add(key)

    @property
    def adopting(self) -> Set[str]:
        """Keys of executors that can adopt an existing action."""
        return self._adopting


class SignerRegistry(Registry[Signer]):
    """Signers by `signer.{kind}.{name}`."""

    def __init__(self) -> None:
        super().__init__("signer", r"signer(\.[a-z][a-z0-9_]*){2,}", Signer)  # type: ignore[type-abstract]
