"""What the fixtures of this folder give, as types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import dagster as dg

#: Runs an async question on a platform and gives its answer.
Ask: TypeAlias = Callable[..., Any]
#: Runs a job: name, its op's name, and the op's config.
Launch: TypeAlias = Callable[..., dg.ExecuteInProcessResult]
#: Reads rows by plain SQL.
Rows: TypeAlias = Callable[..., list[dict[str, Any]]]
#: Evaluates a sensor once: its name, and a cursor.
Tick: TypeAlias = Callable[..., dg.SensorResult]
#: Takes from a run what its page shows.
Shown: TypeAlias = Callable[[dg.ExecuteInProcessResult], Any]
#: Ticks the movements sensor: request ids, check outcomes, next cursor.
Report: TypeAlias = Callable[..., tuple[list[str], dict[str, bool], str | None]]
