"""One JSON-RPC 2.0 call over HTTP to a signer that knows nothing of QTG: bounded, once, no redirects, no proxies."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import httpx

from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.addresses import ServiceAddress
from qtg_dagster.executors.signers.guarded import SignerUnavailable

MOST_ANSWER_BYTES = 65_536
_CONNECT_SECONDS = 5.0
_ID = 1
#: JSON-RPC's "internal error": it says nothing about the request, and may pass.
_INTERNAL_ERROR = -32603


class JsonRpcCaller:
    """Calls one endpoint; `close` it at the end. `who` names the signer in errors."""

    def __init__(self, who: str, address: ServiceAddress, seconds: float, client_certificate: Path | None) -> None:
        """Raises `ConfigurationError` for certificates that cannot be read."""
        self._who = who
        self._url = address.url
        self._seconds = seconds
        self._transport = httpx.AsyncHTTPTransport(
            verify=_tls(who, address, client_certificate),
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
            retries=0,
        )

    async def close(self) -> None:
        """Close what is open."""
        await self._transport.aclose()

    async def call(self, method: str, params: list[Any]) -> Any:
        """The result. Raises `SigningRefused` for an error that answers the call, `SignerUnavailable` for no answer."""
        try:
            async with asyncio.timeout(self._seconds):
                status, body = await self._post(method, params)
        except TimeoutError:
            raise self._unavailable(f"no whole answer within {self._seconds:g} s") from None
        except (httpx.HTTPError, OSError) as error:
            raise self._unavailable(type(error).__name__) from None
        return self._result(status, body, method)

    async def _post(self, method: str, params: list[Any]) -> tuple[int, bytes]:
        document = {"jsonrpc": "2.0", "id": _ID, "method": method, "params": params}
        request = httpx.Request(
            "POST",
            self._url,
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"},
            json=document,
            extensions={"timeout": httpx.Timeout(self._seconds, connect=_CONNECT_SECONDS).as_dict()},
        )
        response = await self._transport.handle_async_request(request)
        try:
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MOST_ANSWER_BYTES:
                    raise self._unavailable(f"its answer is longer than {MOST_ANSWER_BYTES} bytes")
            return response.status_code, bytes(body)
        finally:
            await response.aclose()

    def _result(self, status: int, body: bytes, method: str) -> Any:
        """Errors come with 200 or with an HTTP error, by version; the document decides when it answers this call."""
        if not (status == 200 or 400 <= status < 600):
            raise self._unavailable(f"HTTP {status}: redirects are not followed")
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or answer.get("id") != _ID or answer.get("jsonrpc") != "2.0":
            raise self._unavailable(f"HTTP {status} without an answer to this call")
        error = answer.get("error")
        if error is not None or status != 200 or "result" not in answer:
            raise self._objection(error, status, method)
        return answer["result"]

    def _objection(self, error: Any, status: int, method: str) -> SigningRefused | SignerUnavailable:
        code = error.get("code") if isinstance(error, dict) else None
        # Its text may repeat what it was asked; the code is enough to look it up.
        if isinstance(code, int) and code != _INTERNAL_ERROR:
            return SigningRefused(f"{self._who}: {method} was refused with JSON-RPC error {code} (HTTP {status})")
        return self._unavailable(f"HTTP {status} with an error of its own in {method}")

    def _unavailable(self, reason: str) -> SignerUnavailable:
        return SignerUnavailable(f"{self._who}: cannot be asked: {reason}")


def _tls(who: str, address: ServiceAddress, client_certificate: Path | None) -> ssl.SSLContext:
    context = address.tls_context() or ssl.create_default_context()
    if client_certificate is not None:
        try:
            context.load_cert_chain(client_certificate)
        except (OSError, ssl.SSLError):
            raise ConfigurationError(
                f"signers.{who}.client_certificate: {client_certificate} is not a PEM file of a certificate and its key"
            ) from None
    return context
