"""One JSON-RPC endpoint over web3's HTTP provider: one request for one call, and nothing is ever sent twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from qtg_dagster.domain.errors import QtgError
from qtg_dagster.faults import FaultPoint, fault_point

if TYPE_CHECKING:
    from web3 import AsyncHTTPProvider

    _Providers = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[AsyncHTTPProvider]]

TIMEOUT_SECONDS = 15.0
_RATE_LIMITED = 429
_RATE_LIMIT_WORDS = ("rate limit", "too many requests", "limit exceeded")


class RpcUnavailable(QtgError):
    """No usable answer came: transport, HTTP status, rate limit or a body that is not JSON-RPC."""

    def __init__(self, host: str, problem: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{host}: {problem}")
        self.retry_after_seconds = retry_after_seconds


@contextmanager
def reading(source: str, what: str) -> Iterator[None]:
    """Around taking an answer apart: one that is not made as it should be is no answer, and raises `RpcUnavailable`."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RpcUnavailable(source, f"{what} cannot be read ({type(error).__name__}: {error})") from None


class RpcRefused(QtgError):
    """The node understood the call and answered with an error."""

    def __init__(self, host: str, message: str, data: Any = None) -> None:
        super().__init__(f"{host}: {message}")
        self.message = message
        self.data = data


class _NoLock:
    """Stands in for web3's lock over all sessions of the process, which a call cancelled while waiting never frees.

    A provider of ours belongs to one event loop: nobody is to be kept out.
    """

    def acquire(self) -> bool:
        return True

    def locked(self) -> bool:
        return False

    def release(self) -> None:
        """Nothing was taken."""


class Endpoint:
    """An RPC address. Only its host is ever shown: paths and queries of RPC addresses hold keys."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
        self._url = url
        self._readers: _Providers = WeakKeyDictionary()
        self._writers: _Providers = WeakKeyDictionary()

    async def open(self) -> None:
        """Load what a read needs, so that whoever times the endpoint times nothing else; reaches nobody."""
        await self._provider(self._readers, fresh=False)

    async def ask(self, method: str, params: tuple[Any, ...]) -> Any:
        """The `result` of a read; raises `RpcUnavailable` or `RpcRefused`."""
        return self._unwrap(await self._post(await self._provider(self._readers, fresh=False), method, params))

    async def send_raw(self, signed: str) -> Any:
        """Hand over signed bytes with exactly one request, on a connection of its own."""
        provider = await self._provider(self._writers, fresh=True)
        return self._unwrap(await self._post(provider, "eth_sendRawTransaction", (signed,)))

    async def close(self) -> None:
        """Close the connections that belong to the running event loop."""
        for providers in (self._readers, self._writers):
            opening = providers.pop(asyncio.get_running_loop(), None)
            if opening is not None:
                await (await opening).disconnect()

    async def _provider(self, providers: _Providers, *, fresh: bool) -> AsyncHTTPProvider:
        """This loop's provider; whoever comes first opens it, the others wait for the same one."""
        loop = asyncio.get_running_loop()
        if loop not in providers:
            providers[loop] = asyncio.ensure_future(self._open(fresh=fresh))
        return await asyncio.shield(providers[loop])

    async def _open(self, *, fresh: bool) -> AsyncHTTPProvider:
        from aiohttp import ClientSession, ClientTimeout, TCPConnector, TraceConfig
        from web3 import AsyncHTTPProvider

        # web3 logs whole addresses, keys and all, at DEBUG and INFO.
        logging.getLogger("web3").setLevel(logging.WARNING)
        provider = AsyncHTTPProvider(
            self._url,
            request_kwargs={"timeout": ClientTimeout(total=TIMEOUT_SECONDS), "allow_redirects": False},
            # By default web3 repeats failed calls, eth_sendRawTransaction among them.
            exception_retry_configuration=None,
        )
        provider._request_session_manager._lock = _NoLock()  # type: ignore[assignment]  # noqa: SLF001
        connector = TCPConnector(force_close=True) if fresh else TCPConnector(limit=50)
        watching = TraceConfig()
        if fresh:
            watching.on_request_chunk_sent.append(_on_body_sent)
        session = ClientSession(raise_for_status=True, connector=connector, trace_configs=[watching])
        await provider.cache_async_session(session)
        return provider

    async def _post(self, provider: AsyncHTTPProvider, method: str, params: tuple[Any, ...]) -> Any:
        from aiohttp import ClientError, ClientResponseError
        from web3.types import RPCEndpoint

        try:
            return await provider.make_request(RPCEndpoint(method), list(params))
        except ClientResponseError as error:
            wait = _retry_after(error.headers.get("Retry-After") if error.headers else None)
            raise RpcUnavailable(
                self.host, f"HTTP {error.status}", wait if error.status in (_RATE_LIMITED, 503) else None
            ) from None
        except (ClientError, TimeoutError, OSError) as error:
            raise RpcUnavailable(self.host, type(error).__name__) from None
        except ValueError:
            raise RpcUnavailable(self.host, "the answer is not JSON") from None

    def _unwrap(self, answer: Any) -> Any:
        if not isinstance(answer, dict) or not ("result" in answer or answer.get("error")):
            raise RpcUnavailable(self.host, "the answer is not JSON-RPC")
        error = answer.get("error")
        if not error:
            return answer["result"]
        message = str(error.get("message", error)) if isinstance(error, dict) else str(error)
        if any(words in message.lower() for words in _RATE_LIMIT_WORDS):
            raise RpcUnavailable(self.host, "rate limited")
        raise RpcRefused(self.host, message, error.get("data") if isinstance(error, dict) else None)


async def _on_body_sent(_session: Any, _context: Any, _params: Any) -> None:
    # Fired just before the write, which is done by the time the loop comes round again.
    asyncio.get_running_loop().call_soon(fault_point, FaultPoint.SUBMIT_BYTES_SENT)


def _retry_after(header: str | None) -> float | None:
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds()) if moment.tzinfo else None
