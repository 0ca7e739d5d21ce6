"""Carries a fault out on a live connection: what is executed when, and which bytes the client gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from qtg_dagster.sandbox.exchange.dialect import Dialect
from qtg_dagster.sandbox.exchange.faults import Fault, FaultKind
from qtg_dagster.sandbox.exchange.wire import Answer

_HTML = "<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"

Execute = Callable[[], Answer]


def respond(answer: Answer, dialect: Dialect) -> Response:
    """An answer as the venue sends it, with the time on its own clock."""
    headers = {"content-type": dialect.content_type, "date": formatdate(dialect.venue.now_ms() / 1000, usegmt=True)}
    return Response(dialect.encode(answer[1]), answer[0], headers)


@dataclass(frozen=True, slots=True)
class Powers:
    """What a fault may do to a request: have it executed, have its copy executed, or either later, and answer with
    what the same endpoint answered before."""

    dialect: Dialect
    execute: Execute
    execute_copy: Execute
    later: Callable[[float], None]
    earlier: Answer | None


class _Gone(Response):
    """Nothing: the connection is already dead or written to."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del scope, receive, send


async def misbehave(request: Request, fault: Fault, powers: Powers) -> Response:
    """Answer the request as the fault says."""
    if fault.kind is FaultKind.LATE_EXECUTION:
        powers.later(fault.seconds)
        return _drop(request)
    if fault.kind is FaultKind.DELAY_EXECUTION:
        await asyncio.sleep(fault.seconds)
    answer: Answer = powers.execute() if fault.does_execute else (200, {})
    if fault.kind is FaultKind.DUPLICATE_REQUEST:
        copied = powers.execute_copy()
        answer = copied if fault.answered == "second" else answer
    if fault.kind is FaultKind.EARLIER_REPLY and powers.earlier is not None:
        answer = powers.earlier
    if fault.kind is FaultKind.DELAY_SECONDS:
        await asyncio.sleep(fault.seconds)
    return _reply(request, fault, answer, powers.dialect)


def _reply(request: Request, fault: Fault, answer: Answer, dialect: Dialect) -> Response:
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
            return Response(b"", status_code=200, headers={"content-type": dialect.content_type})
        case FaultKind.TRUNCATED_BODY:
            return _cut_short(request, answer, dialect)
        case FaultKind.BAD_GZIP:
            headers = {"content-type": dialect.content_type, "content-encoding": "gzip"}
            return Response(b"\x1f\x8b\x08\x00" + b"\xff" * 24, status_code=answer[0], headers=headers)
        case FaultKind.REDIRECT_307:
            return Response(b"", status_code=307, headers={"location": fault.location or str(request.url)})
        case FaultKind.REPLY:
            body = "" if fault.status in (204, 304) else fault.body
            headers = {"content-type": fault.content_type, **fault.headers}
            return Response(body, status_code=fault.status, headers=headers)
        case _:
            return respond(answer, dialect)


def _html(status: int, title: str) -> Response:
    return Response(_HTML.format(title=title), status_code=status, headers={"content-type": "text/html"})


def _drop(request: Request) -> Response:
    request.state.connection.hang_up()
    return _Gone()


def _cut_short(request: Request, answer: Answer, dialect: Dialect) -> Response:
    body = dialect.encode(answer[1]).encode()
    head = f"HTTP/1.1 {answer[0]} OK\r\ncontent-type: {dialect.content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    request.state.connection.hang_up(after=head.encode() + body[: len(body) // 2])
    return _Gone()
