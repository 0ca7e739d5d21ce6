"""Carries a fault out on a live connection: what is executed when, and which bytes the client gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from qtg_dagster.sandbox.exchange.faults import Fault, FaultKind

_JSON = "application/json;charset=UTF-8"
_HTML = "<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"

Answer = tuple[int, Any]
Execute = Callable[[], Answer]


def json_response(answer: Answer) -> Response:
    """An answer as Binance sends it."""
    return Response(json.dumps(answer[1]), status_code=answer[0], headers={"content-type": _JSON})


class _Gone(Response):
    """Nothing: the connection is already dead or written to."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del scope, receive, send


async def misbehave(request: Request, fault: Fault, execute: Execute, later: Callable[[float], None]) -> Response:
    """Answer the request as the fault says. `later(seconds)` schedules the execution behind the client's back."""
    if fault.kind is FaultKind.LATE_EXECUTION:
        later(fault.seconds)
        return _drop(request)
    if fault.kind is FaultKind.DELAY_EXECUTION:
        await asyncio.sleep(fault.seconds)
    answer: Answer = execute() if fault.does_execute else (200, {})
    if fault.kind is FaultKind.DELAY_SECONDS:
        await asyncio.sleep(fault.seconds)
    return _reply(request, fault, answer)


def _reply(request: Request, fault: Fault, answer: Answer) -> Response:
    match fault.kind:
        case FaultKind.LOSE_REPLY_AFTER_EXECUTION | FaultKind.LOSE_REPLY_BEFORE_EXECUTION:
            return _drop(request)
        case FaultKind.EXECUTE_THEN_500:
            return _html(500, "500 Internal Server Error")
        case FaultKind.HTTP_524_HTML:
            return _html(524, "524: A timeout occurred")
        case FaultKind.OK_HTML_200:
            return _html(200, "Welcome")
        case FaultKind.EMPTY_200:
            return Response(b"", status_code=200, headers={"content-type": _JSON})
        case FaultKind.TRUNCATED_BODY:
            return _cut_short(request, answer)
        case FaultKind.BAD_GZIP:
            headers = {"content-type": _JSON, "content-encoding": "gzip"}
            return Response(b"\x1f\x8b\x08\x00" + b"\xff" * 24, status_code=answer[0], headers=headers)
        case FaultKind.REDIRECT_307:
            return Response(b"", status_code=307, headers={"location": fault.location or str(request.url)})
        case FaultKind.REPLY:
            body = "" if fault.status in (204, 304) else fault.body
            headers = {"content-type": fault.content_type, **fault.headers}
            return Response(body, status_code=fault.status, headers=headers)
        case _:
            return json_response(answer)


def _html(status: int, title: str) -> Response:
    return Response(_HTML.format(title=title), status_code=status, headers={"content-type": "text/html"})


def _drop(request: Request) -> Response:
    request.state.connection.hang_up()
    return _Gone()


def _cut_short(request: Request, answer: Answer) -> Response:
    body = json.dumps(answer[1]).encode()
    head = f"HTTP/1.1 {answer[0]} OK\r\ncontent-type: {_JSON}\r\ncontent-length: {len(body)}\r\n\r\n"
    request.state.connection.hang_up(after=head.encode() + body[: len(body) // 2])
    return _Gone()
