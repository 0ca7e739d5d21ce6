"""How QTG logs: a line an event, tracebacks without variables, everything through the redaction."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from qtg_dagster.domain.redaction import redact


def _redacted(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The event without secrets; the exception is rendered by then."""
    return dict(redact(event))


def configure_logs() -> None:
    """Set structlog up for this process. Its default would print every frame's variables with a traceback."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redacted,
            structlog.dev.ConsoleRenderer(colors=False),
        ],
        # Looked up at each line: Dagster and tests put other streams in its place.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
