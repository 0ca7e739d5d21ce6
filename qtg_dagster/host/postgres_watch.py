"""Bringing the embedded PostgreSQL back while QTG is up; it belongs to no supervisor, so that it outlives one."""

from __future__ import annotations

import time
from collections.abc import Callable

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.postgres import EmbeddedPostgres

LOOK_SECONDS = 3.0


class PostgresWatch:
    """Looks every few seconds whether the server answers, and starts it again when it does not."""

    def __init__(self, server: EmbeddedPostgres, say: Callable[[str], None]) -> None:
        self._server = server
        self._say = say
        self._next_look = time.monotonic() + LOOK_SECONDS

    def look(self) -> None:
        """Look when it is time to; a start that fails is told and tried again at the next look."""
        if time.monotonic() < self._next_look:
            return
        if not self._server.is_alive():
            self._say("postgresql does not answer, starting it again")
            try:
                self._server.start()
            except ConfigurationError as error:
                self._say(f"postgresql did not start: {error}")
            else:
                self._say("postgresql is ready again")
        self._next_look = time.monotonic() + LOOK_SECONDS
