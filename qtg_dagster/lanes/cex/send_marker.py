"""Watching one HTTP request from inside aiohttp: did it leave, what came back, did anything try to send it again."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qtg_dagster.domain.errors import QtgError
from qtg_dagster.faults import FaultPoint, fault_point

if TYPE_CHECKING:
    import aiohttp


class RedirectRefused(QtgError):
    """A venue answered with a redirect; following it would send the signed body a second time."""


class SecondRequestRefused(QtgError):
    """Something below tried to send more than one request for one call."""


@dataclass(slots=True)
class Sending:
    """What is known about the one request of the current call."""

    moves_money: bool
    started: bool = False
    sent: bool = False
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body_text: str | None = None


current_sending: ContextVar[Sending | None] = ContextVar("current_sending", default=None)


def trace_config() -> aiohttp.TraceConfig:
    """Hooks that fill `current_sending` and refuse redirects and repeats."""
    import aiohttp

    config = aiohttp.TraceConfig()
    config.on_request_start.append(_on_start)
    config.on_request_headers_sent.append(_on_headers_sent)
    config.on_request_chunk_sent.append(_on_body_sent)
    config.on_request_redirect.append(_on_redirect)
    config.on_request_end.append(_on_end)
    return config


async def _on_start(_session: Any, _context: Any, params: Any) -> None:
    sending = current_sending.get()
    if sending is None or sending.started:
        raise SecondRequestRefused(f"refused {params.method} {params.url.path}: one call is one request")
    sending.started = True


async def _on_headers_sent(_session: Any, _context: Any, _params: Any) -> None:
    # aiohttp fires this just before the first byte is written: absent means that nothing can have left.
    sending = current_sending.get()
    if sending is not None:
        sending.sent = True


async def _on_body_sent(_session: Any, _context: Any, _params: Any) -> None:
    sending = current_sending.get()
    if sending is not None and sending.moves_money:
        # Also fired just before the write, which is done by the time the loop comes round again.
        asyncio.get_running_loop().call_soon(fault_point, FaultPoint.SUBMIT_BYTES_SENT)


async def _on_redirect(_session: Any, _context: Any, params: Any) -> None:
    _note_response(params.response)
    raise RedirectRefused(f"refused redirect HTTP {params.response.status} of {params.method} {params.url.path}")


async def _on_end(_session: Any, _context: Any, params: Any) -> None:
    _note_response(params.response)


def _note_response(response: Any) -> None:
    sending = current_sending.get()
    if sending is not None:
        sending.status = response.status
        sending.headers = {str(name): str(value) for name, value in response.headers.items()}
