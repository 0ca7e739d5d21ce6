"""The other end of `remote`: a signer as an ASGI application, so that its key can have a process of its own."""

from __future__ import annotations

from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from qtg_dagster.domain.contract import PROTOCOL_VERSION, SignRequest
from qtg_dagster.domain.errors import QtgError, RequestRefused, SigningRefused
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.executors.contract import Signer
from qtg_dagster.executors.message_auth import answer_headers
from qtg_dagster.executors.remote.documents import ErrorAnswer, ErrorDetail, HealthAnswer
from qtg_dagster.executors.remote.reading import Unreadable, read_document
from qtg_dagster.executors.request_gate import Admitted, RequestGate

log = structlog.get_logger("qtg.signing_service")

MOST_REQUEST_BYTES = 65_536
#: The one status that means "understood, and will not be signed".
REFUSED = 403
_NOT_ADMITTED = {"REPLAYED": 409, "BUSY": 429, "OVERSIZED": 413}


class SigningService:
    """Lets signed requests in, once each, and answers them by one signer, which judges for itself."""

    def __init__(self, signer: Signer, gate: RequestGate) -> None:
        self._signer = signer
        self._gate = gate

    def app(self) -> Starlette:
        """The ASGI application: `POST /sign` and `GET /health`."""
        return Starlette(
            routes=[
                Route("/sign", self._sign, methods=["POST"]),
                Route("/health", self._health, methods=["GET"]),
            ]
        )

    async def _sign(self, request: Request) -> Response:
        try:
            body = await _read(request)
            admitted = self._admit(request, body)
        except RequestRefused as refusal:
            return _not_admitted(refusal)
        try:
            asked = read_document(body, SignRequest)
            signed = await self._signer.sign(asked)
        except Unreadable as problem:
            return _error(400, problem.code, str(problem), admitted)
        except SigningRefused as refusal:
            log.warning("refused", signer=self._signer.signer_key, reason=redact_text(str(refusal)))
            return _error(REFUSED, "SIGNING_REFUSED", str(refusal), admitted)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered, and is on record here
            return self._failed(error, admitted)
        log.info("signed", signer=self._signer.signer_key, node=asked.request_node_id, **signed.provider_refs)
        return _response(200, signed, admitted)

    async def _health(self, request: Request) -> Response:
        try:
            admitted = self._admit(request, b"")
        except RequestRefused as refusal:
            return _not_admitted(refusal)
        answer = HealthAnswer(protocol_version=PROTOCOL_VERSION, report=await self._signer.health())
        return _response(200, answer, admitted)

    def _failed(self, error: Exception, admitted: Admitted) -> Response:
        """Its words may hold anything; ours do not. A key's holder may have signed and been lost."""
        text = redact_text(f"{type(error).__name__}: {error}")
        log.error("not signed", signer=self._signer.signer_key, error=text)
        said = str(error) if isinstance(error, QtgError) else type(error).__name__
        return _error(503, "SIGNER_UNAVAILABLE", said, admitted, nothing_done=False)

    def _admit(self, request: Request, body: bytes) -> Admitted:
        path = request.scope.get("raw_path", b"").decode("ascii", "replace")
        if request.url.query:
            raise RequestRefused("WRONG_SIGNATURE", "no query is signed, so none is taken")
        return self._gate.admit(method=request.method, path=path, headers=request.headers, body=body)


async def _read(request: Request) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_REQUEST_BYTES:
                raise RequestRefused("OVERSIZED", f"a request may have {MOST_REQUEST_BYTES} bytes")
    except ClientDisconnect as gone:
        raise RequestRefused("CUT_OFF", "the request ended before its body did") from gone
    return bytes(body)


def _not_admitted(refusal: RequestRefused) -> Response:
    return _error(_NOT_ADMITTED.get(refusal.code, 401), refusal.code, str(refusal), None)


def _error(status: int, code: str, message: str, admitted: Admitted | None, *, nothing_done: bool = True) -> Response:
    detail = ErrorDetail(code=code, message=redact_text(message), nothing_done=nothing_done)
    return _response(status, ErrorAnswer(protocol_version=PROTOCOL_VERSION, error=detail), admitted)


def _response(status: int, document: Frozen, admitted: Admitted | None) -> Response:
    body = document.model_dump_json().encode()
    signed: dict[str, Any] = {}
    if admitted is not None:
        signed = answer_headers(admitted.secret, nonce=admitted.nonce, status=status, body=body)
    return Response(body, status, {"Cache-Control": "no-store", **signed}, media_type="application/json")
