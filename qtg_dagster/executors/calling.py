"""One HTTP request to a service of QTG, and what can be known afterwards: never sent, unanswered, or answered.

The transport is used without a client around it: nothing retries, follows a redirect, keeps a cookie, or reads a proxy
from the environment. Each call has its own connection: one kept open may be gone by the time it is written to, and
then nobody knows whether the request arrived.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from qtg_dagster.domain.clock import Clock, SystemClock
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.executors.addresses import ServiceAddress
from qtg_dagster.executors.message_auth import answer_is_signed, check_secret, new_nonce, request_headers
from qtg_dagster.secret import Secret

MOST_ANSWER_BYTES = 1_048_576
_CONNECT_SECONDS = 5.0
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class NeverSent:
    """Not one byte of the request was written."""

    reason: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """It may have arrived, and no answer came that can be believed. `code` says why: LOST, LATE, UNSIGNED ..."""

    code: str
    reason: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answered:
    """The service's own answer to this very request, with any status but 3xx; its signature is checked."""

    status: int
    body: bytes
    evidence: Mapping[str, Any]


Outcome = NeverSent | Unanswered | Answered


class ServiceCaller:
    """Calls one service with signed requests; `close` it at the end."""

    def __init__(
        self,
        address: ServiceAddress,
        secret: Secret,
        *,
        clock: Clock | None = None,
        most_answer_bytes: int = MOST_ANSWER_BYTES,
    ) -> None:
        """Raises `ConfigurationError` for a secret that is too short or a CA file that cannot be read."""
        self._address = address
        self._secret = check_secret(secret, f"the secret of {address.origin}")
        self._clock = clock or SystemClock()
        self._most = most_answer_bytes
        self._transport = httpx.AsyncHTTPTransport(
            verify=address.tls_context() or ssl.create_default_context(),
            trust_env=False,
            limits=httpx.Limits(max_connections=_AT_ONCE, max_keepalive_connections=0),
            retries=0,
        )

    async def close(self) -> None:
        """Close what is open."""
        await self._transport.aclose()

    async def call(
        self, method: str, path: str, *, seconds: float, body: bytes = b"", idempotency_key: str = ""
    ) -> Outcome:
        """Make the request once and wait at most `seconds` for the whole of its answer.

        `path` is appended to the address, e.g. "/submit". Never raises for what happens on the way; raises
        `ValueError`, before anything is sent, for a path or key that cannot stand in a header.
        """
        attempt = _Attempt(self, method, path, body, idempotency_key)
        try:
            async with asyncio.timeout(seconds):
                return await attempt.make(seconds)
        except TimeoutError:
            return attempt.failed("LATE", f"no whole answer within {seconds:g} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return attempt.failed("LOST", redact_text(f"{type(error).__name__}: {error}"))

    def prepare(self, method: str, path: str, nonce: str, body: bytes, idempotency_key: str) -> httpx.Request:
        """The signed request."""
        signed = request_headers(
            self._secret,
            method=method,
            path=self._address.path + path,
            timestamp=int(self._clock.now().timestamp() * 1000),
            nonce=nonce,
            idempotency_key=idempotency_key,
            body=body,
        )
        plain = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
        typed = {"Content-Type": "application/json"} if body else {}
        return httpx.Request(method, self._address.url + path, headers={**plain, **typed, **signed}, content=body)

    async def send(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)

    async def read(self, response: httpx.Response) -> bytes | None:
        """The answer's body as it came over the wire; None when it is longer than allowed."""
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._most:
                return None
        return bytes(body)

    def believes(self, nonce: str, response: httpx.Response, body: bytes) -> bool:
        return answer_is_signed(
            self._secret, nonce=nonce, status=response.status_code, headers=response.headers, body=body
        )


class _Attempt:
    """One request on its way, and what is known of it so far."""

    def __init__(self, caller: ServiceCaller, method: str, path: str, body: bytes, idempotency_key: str) -> None:
        self._caller = caller
        self._nonce = new_nonce()
        self._request = caller.prepare(method, path, self._nonce, body, idempotency_key)
        self._sent = False
        self._status: int | None = None
        self._began = time.monotonic()

    async def make(self, seconds: float) -> Outcome:
        connect = min(seconds, _CONNECT_SECONDS)
        self._request.extensions = {
            "timeout": {"connect": connect, "read": seconds, "write": seconds, "pool": seconds},
            "trace": self._trace,
        }
        response = await self._caller.send(self._request)
        try:
            self._status = response.status_code
            return await self._judge(response)
        finally:
            await response.aclose()

    async def _judge(self, response: httpx.Response) -> Outcome:
        if response.status_code // 100 == 3:
            return self.failed("REDIRECTED", f"HTTP {response.status_code}: redirects are not followed")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            return self.failed("ENCODED", "the answer is compressed, which was not asked for")
        body = await self._caller.read(response)
        if body is None:
            return self.failed("OVERSIZED", "the answer is longer than allowed; the rest was not read")
        if not self._caller.believes(self._nonce, response, body):
            return self.failed("UNSIGNED", f"HTTP {response.status_code} without this service's signature on it")
        return Answered(response.status_code, body, self._evidence())

    async def _trace(self, event: str, _info: Mapping[str, Any]) -> None:
        """Called by the transport at each step; connecting and TLS come before the first of the request's own."""
        if not event.startswith("connection."):
            self._sent = True

    def failed(self, code: str, reason: str) -> NeverSent | Unanswered:
        if self._sent:
            return Unanswered(code, reason, self._evidence())
        return NeverSent(reason, self._evidence())

    def _evidence(self) -> dict[str, Any]:
        took = round((time.monotonic() - self._began) * 1000)
        seen = {"url": str(self._request.url), "nonce": self._nonce, "took_ms": took, "sent": self._sent}
        return seen if self._status is None else {**seen, "http_status": self._status}
