"""One attempt: POST a callback and judge the answer, within a bounded time and at a bounded cost, whatever answers."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpcore

from qtg_dagster.callbacks.connecting import AddressRefused, GuardedBackend, NotResolved
from qtg_dagster.callbacks.signing import SigningKeys
from qtg_dagster.domain.callbacks import (
    PATIENCE_ANSWERS,
    Attempt,
    ClaimedCallback,
    Verdict,
    judge_status,
)
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.receivers import ReceiverPolicy, Resolver
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.settings import Settings

#: What is read of an answer, to be shown to the operator; the rest is hung up on.
_ANSWER_BYTES = 2_048
_ANSWER_SECONDS = 1.0
_SHOWN = 200
#: Idle connections are closed before most servers would.
_KEEP_SECONDS = 4.0
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")


class CallbackSender:
    """Sends callbacks. Follows no redirect, knows no proxy of the environment, and never sends one twice by itself."""

    def __init__(
        self,
        keys: SigningKeys,
        policy: ReceiverPolicy,
        resolver: Resolver,
        *,
        timeout_seconds: float,
        tls: ssl.SSLContext,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._policy = policy
        self._timeout = timeout_seconds
        self._clock = clock
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            network_backend=GuardedBackend(policy, resolver),
            max_connections=None,  # who may have how many is decided where callbacks are claimed
            max_keepalive_connections=64,
            keepalive_expiry=_KEEP_SECONDS,
            retries=0,
        )

    async def send(self, callback: ClaimedCallback) -> Attempt:
        """Make one attempt. Raises nothing: what goes wrong is the attempt's outcome."""
        try:
            receiver = self._policy.read(callback.url)
        except InvalidInput as error:
            # Ordered under other rules; it may be redriven once the operator allows it.
            return Attempt(Verdict.REFUSED, problem=f"url_refused: {error.problem}")
        try:
            async with asyncio.timeout(self._timeout) as bound:
                return await self._post(receiver.url, callback, bound)
        except TimeoutError:
            return Attempt(Verdict.FAILED, problem=f"timeout: no answer within {self._timeout:g} s")
        except AddressRefused as error:
            return Attempt(Verdict.FAILED, problem=f"address_refused: {error}")
        except NotResolved as error:
            return Attempt(Verdict.FAILED, problem=f"not_resolved: {error}")
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            return Attempt(Verdict.FAILED, problem=_broken(error))

    async def _post(self, url: str, callback: ClaimedCallback, bound: asyncio.Timeout) -> Attempt:
        headers = self._keys.headers(callback, int(self._clock()))
        async with self._pool.stream("POST", url, headers=headers, content=callback.body) as response:
            verdict = judge_status(response.status)
            # It has answered: what comes behind the status has a time of its own, and cannot undo that.
            bound.reschedule(asyncio.get_running_loop().time() + 2 * _ANSWER_SECONDS)
            said = await _beginning(response)
            if verdict is Verdict.DELIVERED:
                return Attempt(verdict, response.status)
            return Attempt(
                verdict,
                response.status,
                f"http_{response.status}: {_shown(response, said)}",
                _retry_after(response, self._clock()) if response.status in PATIENCE_ANSWERS else None,
            )

    async def close(self) -> None:
        await self._pool.aclose()


def tls_of(settings: Settings) -> ssl.SSLContext:
    """The authorities that receivers' certificates are checked against."""
    import certifi

    context = ssl.create_default_context(cafile=certifi.where())
    if settings.callback_ca_file is not None:
        context.load_verify_locations(cafile=settings.callback_ca_file)
    return context


async def _beginning(response: httpcore.Response) -> bytes:
    """The first bytes of the answer's body. The verdict stands already, so trouble here changes nothing."""
    said = b""
    with contextlib.suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException):
        async with asyncio.timeout(_ANSWER_SECONDS):
            async for chunk in response.aiter_stream():
                said += chunk[:_ANSWER_BYTES]
                if len(said) >= _ANSWER_BYTES:
                    break
    return said[:_ANSWER_BYTES]


def _shown(response: httpcore.Response, said: bytes) -> str:
    if 300 <= response.status < 400:
        return "redirects are not followed"
    text = _UNPRINTABLE.sub(" ", redact_text(said.decode("utf-8", "replace"))).strip()
    return text[:_SHOWN] or "no words"


def _retry_after(response: httpcore.Response, now: float) -> float | None:
    """Seconds that the receiver asks to be left alone for; None when it does not say, or not so that it can be read."""
    text = next((value for name, value in response.headers if name.lower() == b"retry-after"), b"").decode("latin-1")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.fromtimestamp(now, UTC)).total_seconds())


def _broken(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"tls_failed: {cause.reason or cause}"
        cause = cause.__cause__ or cause.__context__
    kind = "connection_failed" if isinstance(error, (httpcore.ConnectError, OSError)) else "connection_cut"
    return f"{kind}: {str(error) or type(error).__name__}"
