"""uvicorn's HTTP protocol with one more ability: to hang up on a client."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class RudeProtocol(H11Protocol):
    """Gives each request its connection as `request.state.connection`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state: dict[str, Any] = {**self.app_state, "connection": self}

    def hang_up(self, *, after: bytes = b"") -> None:
        """End the connection, with no byte of an answer or after these raw ones."""
        self.cycle.disconnected = True
        if not after:
            self.transport.abort()
            return
        self.transport.write(after)
        self.transport.close()
