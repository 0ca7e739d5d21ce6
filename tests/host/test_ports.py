"""Loopback ports that are remembered."""

from __future__ import annotations

import socket
from pathlib import Path

from qtg_dagster.host.ports import is_free, remembered_port


def listening(port: int) -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def test_a_service_keeps_its_port(home: Path) -> None:
    assert remembered_port(home, "web") == remembered_port(home, "web")


def test_two_services_get_two_ports_before_either_listens(home: Path) -> None:
    assert remembered_port(home, "web") != remembered_port(home, "chain")


def test_a_taken_port_is_replaced(home: Path) -> None:
    had = remembered_port(home, "web")
    with listening(had):
        assert not is_free(had)
        now = remembered_port(home, "web")
        assert now != had
        assert is_free(now)
    assert remembered_port(home, "web") == now


def test_a_preferred_port_is_taken_when_free_and_given_up_when_not(home: Path) -> None:
    preferred = remembered_port(home, "probe")
    (home / "run" / "ports.json").unlink()
    assert remembered_port(home, "web", preferred) == preferred
    with listening(preferred):
        assert remembered_port(home, "web", preferred) != preferred
