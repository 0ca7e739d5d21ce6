"""Loopback ports: picked when free, remembered, and replaced without a fuss when something else took them."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.locks import exclusive

# Below the range that the system hands out to outgoing connections.
_FIRST, _LAST = 20_000, 29_999


def is_free(port: int) -> bool:
    """True when nothing listens on that loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def remembered_port(home: Path, name: str, preferred: int | None = None) -> int:
    """The port of the service `name`: the one it had, else `preferred`, else a random one; always free now."""
    book = home / "run" / "ports.json"
    with exclusive(home / "run" / "ports.lock", wait_seconds=10, doing="picking a port"):
        ports: dict[str, int] = json.loads(book.read_text()) if book.is_file() else {}
        wanted = [preferred, ports.get(name)] if preferred else [ports.get(name)]
        others = {port for other, port in ports.items() if other != name}
        candidates = [port for port in wanted if port] + random.sample(range(_FIRST, _LAST), 200)
        for port in candidates:
            if port not in others and is_free(port):
                ports[name] = port
                book.write_text(json.dumps(ports, indent=2))
                return port
    raise ConfigurationError(f"no free loopback port for {name} between {_FIRST} and {_LAST}")
