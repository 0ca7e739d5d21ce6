"""The other end: an executor of this process as an ASGI application that speaks the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from qtg_dagster.domain.contract import PROTOCOL_VERSION
from qtg_dagster.domain.errors import InvalidInput, QtgError, RequestRefused
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.executors.contract import Executor
from qtg_dagster.executors.message_auth import IDEMPOTENCY_HEADER, answer_headers
from qtg_dagster.executors.remote.answers import INVALID_INPUT
from qtg_dagster.executors.remote.documents import (
    ContextRequest,
    Description,
    ErrorAnswer,
    ErrorDetail,
    HealthAnswer,
    Method,
    PreparedAnswer,
    ResultAnswer,
    SubmitRequest,
)
from qtg_dagster.executors.remote.lateness import Investigated
from qtg_dagster.executors.remote.reading import Unreadable, read_document
from qtg_dagster.executors.request_gate import Admitted, RequestGate

log = structlog.get_logger("qtg.executor_service")

MOST_REQUEST_BYTES = 4_194_304
Session = Any
_REFUSED = {"REPLAYED": 409, "BUSY": 429, "OVERSIZED": 413}


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent back: a status and a document, or no content."""

    status: int
    document: Frozen | None = None

    def body(self) -> bytes:
        return b"" if self.document is None else self.document.model_dump_json().encode()


class ExecutorService:
    """Lets signed requests in, once each, and answers them by one executor."""

    def __init__(
        self,
        executor: Executor,
        description: Description,
        gate: RequestGate,
        *,
        session: Callable[[], AbstractAsyncContextManager[Session]] = nullcontext,
        most_request_bytes: int = MOST_REQUEST_BYTES,
    ) -> None:
        """`session` opens what the executor's submit and recover are given."""
        self._executor = executor
        self._description = description
        self._gate = gate
        self._session = session
        self._most = most_request_bytes
        self._investigated = Investigated(keep_seconds=2 * gate.window_seconds)

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[Route(method.path, self._endpoint(method), methods=[method.verb]) for method in Method]
        )

    def _endpoint(self, method: Method) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                body = await self._read(request)
                admitted = self._admit(request, body)
            except RequestRefused as refusal:
                return _response(_error(_REFUSED.get(refusal.code, 401), refusal.code, str(refusal)), None)
            return _response(await self._reply(method, request, body), admitted)

        return endpoint

    async def _read(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > self._most:
                    raise RequestRefused("OVERSIZED", f"a request may have {self._most} bytes")
        except ClientDisconnect as gone:
            raise RequestRefused("CUT_OFF", "the request ended before its body did") from gone
        return bytes(body)

    def _admit(self, request: Request, body: bytes) -> Admitted:
        path = request.scope.get("raw_path", b"").decode("ascii", "replace")
        if request.url.query:
            raise RequestRefused("WRONG_SIGNATURE", "no query is signed, so none is taken")
        return self._gate.admit(method=request.method, path=path, headers=request.headers, body=body)

    async def _reply(self, method: Method, request: Request, body: bytes) -> Reply:
        """The signed reply: nothing was done before `_perform`, and the nonce is used up."""
        if method is Method.DESCRIBE:
            return Reply(200, self._description)
        try:
            asked = self._asked(method, request, body)
        except Unreadable as problem:
            return _error(400, problem.code, str(problem))
        except _TooLate as late:
            return _error(409, late.code, str(late), nothing_done=False)
        except RequestRefused as refusal:
            return _error(400, refusal.code, str(refusal))
        try:
            reply = await self._perform(method, asked)
            reply.body()  # what cannot be spelled as JSON is found here
        except InvalidInput as wrong:
            if method in (Method.PREFLIGHT, Method.PREPARE):
                return _error(422, INVALID_INPUT, wrong.problem, field=wrong.field, fix=wrong.fix)
            return _failed(method, wrong)
        except Exception as error:  # noqa: BLE001 - whatever a lane throws is answered, and is on record here
            return _failed(method, error)
        return reply

    def _asked(self, method: Method, request: Request, body: bytes) -> ContextRequest | None:
        if method is Method.HEALTH:
            return None
        asked = read_document(body, SubmitRequest if method is Method.SUBMIT else ContextRequest)
        if asked.executor_key != self._description.executor_key:
            raise RequestRefused("WRONG_EXECUTOR", f"this is {self._description.executor_key}")
        if request.headers.get(IDEMPOTENCY_HEADER) != asked.context.idempotency_key:
            raise RequestRefused("WRONG_KEY", f"{IDEMPOTENCY_HEADER} is not the context's idempotency_key")
        if method is Method.RECOVER:
            self._investigated.add(asked.context.idempotency_key)
        elif method is Method.SUBMIT and asked.context.idempotency_key in self._investigated:
            raise _TooLate("TOO_LATE", "recovery has asked about this attempt; it is not begun any more")
        return asked

    async def _perform(self, method: Method, asked: ContextRequest | None) -> Reply:
        executor, version = self._executor, PROTOCOL_VERSION
        if asked is None:
            return Reply(200, HealthAnswer(protocol_version=version, report=await executor.health()))
        context = asked.context
        if method is Method.PREFLIGHT:
            problem = await executor.preflight(context)
            return Reply(204) if problem is None else Reply(200, ResultAnswer(protocol_version=version, result=problem))
        if method is Method.PREPARE:
            return Reply(200, PreparedAnswer(protocol_version=version, prepared=await executor.prepare(context)))
        if method is Method.OBSERVE:
            return Reply(200, ResultAnswer(protocol_version=version, result=await executor.observe(context)))
        async with self._session() as session:
            if isinstance(asked, SubmitRequest):
                found = await executor.submit(context, asked.prepared, session)
            else:
                found = await executor.recover(context, session)
        return Reply(200, ResultAnswer(protocol_version=version, result=found))


class _TooLate(RequestRefused):
    """A submit after recovery: this request does nothing, and recovery may have sent the action again."""


def _error(
    status: int, code: str, message: str, *, field: str | None = None, fix: str | None = None, nothing_done: bool = True
) -> Reply:
    detail = ErrorDetail(code=code, message=message, nothing_done=nothing_done, field=field, fix=fix)
    return Reply(status, ErrorAnswer(protocol_version=PROTOCOL_VERSION, error=detail))


def _failed(method: Method, error: Exception) -> Reply:
    """The executor threw. Its words may hold anything; ours do not."""
    log.error("executor raised", method=method.value, error=redact_text(f"{type(error).__name__}: {error}"))
    said = f"{type(error).__name__}: {redact_text(str(error))}" if isinstance(error, QtgError) else type(error).__name__
    detail = ErrorDetail(code="EXECUTOR_RAISED", message=said, nothing_done=False)
    return Reply(500, ErrorAnswer(protocol_version=PROTOCOL_VERSION, error=detail))


def _response(reply: Reply, admitted: Admitted | None) -> Response:
    body = reply.body()
    headers = {"Cache-Control": "no-store"}
    if admitted is not None:
        headers |= answer_headers(admitted.secret, nonce=admitted.nonce, status=reply.status, body=body)
    return Response(body, reply.status, headers, media_type="application/json" if body else None)
