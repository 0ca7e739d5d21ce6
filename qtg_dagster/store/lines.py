"""Lines to PostgreSQL that do not hang: what is cut off without a word, or stopped, is noticed and hung up on.

A socket that is shut down wakes whoever waits on it at once, with the error of a server that is gone. Asking such a
server to cancel the statement instead would wait for its answer.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict

from qtg_dagster.store.urls import with_options

log = structlog.get_logger("qtg.store")

#: Seconds in which an answer must come; longer than the server allows a statement of the money path.
ANSWER_SECONDS = 20.0
#: Seconds that the server allows a statement of the money path, waiting for locks included; it then says so itself.
STATEMENT_SECONDS = 15.0
#: How libpq notices a network that is cut, unless the URL says otherwise: within 25 s, also while it waits for a lock.
_OUR_END = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
#: The same for the server's end: a host that is cut off then keeps its locks for 25 s, not for hours.
THEIR_END = "-ctcp_keepalives_idle=10 -ctcp_keepalives_interval=5 -ctcp_keepalives_count=3 -ctcp_user_timeout=20000"


def with_time_limit(url: str) -> str:
    """The URL with the server's limit on a statement, unless it has one."""
    return url if "statement_timeout" in url else with_options(url, f"-cstatement_timeout={STATEMENT_SECONDS:.0f}s")


def parameters(url: str) -> dict[str, Any]:
    """libpq's parameters of a URL, with what notices a network that is cut."""
    return {**_OUR_END, **conninfo_to_dict(url)}


@contextmanager
def answering(connection: psycopg.AsyncConnection[Any]) -> Iterator[None]:
    """Hang up on a server that has not answered when the time is over; the statement raises `OperationalError`."""
    timer = asyncio.get_running_loop().call_later(ANSWER_SECONDS, _hang_up, connection)
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(connection: psycopg.AsyncConnection[Any]) -> None:
    if connection.closed:
        return
    log.error("the database does not answer; hung up", seconds=ANSWER_SECONDS)
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)
