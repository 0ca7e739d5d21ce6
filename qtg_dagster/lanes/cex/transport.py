"""ccxt as a signing HTTP client: one instance a venue account, one request a call, nothing repeated."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.redaction import REDACTED, redact_text
from qtg_dagster.lanes.cex.hidden import Hidden
from qtg_dagster.lanes.cex.reply import RawReply, exact_json
from qtg_dagster.lanes.cex.send_marker import Sending, current_sending, trace_config
from qtg_dagster.lanes.cex.venue import Call
from qtg_dagster.secret import Secret

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_RETRY_OPTION = "maxRetriesOnFailure"
_QUERY = re.compile(r"\?[^\s\"']+")

# ccxt logs signed requests at DEBUG; this logger of ours never does.
_quiet = logging.getLogger("qtg_dagster.lanes.cex.ccxt")
_quiet.setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Credentials:
    """A venue account's key, in as many parts as the venue's keys have."""

    api_key: Secret
    api_secret: Secret
    passphrase: Secret | None = None

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """All that must not be seen anywhere."""
        return (self.api_secret, self.api_key, *([self.passphrase] if self.passphrase else []))


class Transport:
    """Signed requests to one venue account.

    Every call sends at most one HTTP request, on a connection of its own, and follows no redirect. With `one_at_a_time`
    a call begins when the one before has its answer: where nonces must rise, none may overtake another. Raises
    `ConfigurationError` for a client that would repeat requests, and for plain HTTP to another machine.
    """

    def __init__(
        self,
        ccxt_id: str,
        credentials: Credentials,
        *,
        base_url: str | None = None,
        timeout_seconds: float = 10.0,
        options: Mapping[str, Any] | None = None,
        one_at_a_time: bool = False,
        rate_window_seconds: float = 0,
    ) -> None:
        refuse_retries(options or {}, where=f"{ccxt_id} options")
        self._ccxt_id = ccxt_id
        self._credentials = credentials
        self._base_url = _checked_base_url(base_url)
        self._timeout_seconds = timeout_seconds
        self._options = dict(options or {})
        self._client: Any = None
        self._session: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Lock | None = None
        self._one_at_a_time = one_at_a_time
        self._rate_window_seconds = rate_window_seconds
        self._turns: asyncio.Semaphore | None = None

    async def call(self, call: Call) -> RawReply:
        """Send one request. Whatever the transport does is in the reply; only cancellation is raised."""
        _refuse_numbers(call)
        client = await self._open()
        refuse_retries(client.options, where=f"{self._ccxt_id} options")
        refuse_retries(call.params, where=f"{call.method} parameters")
        sending = Sending(moves_money=call.moves_money)
        token = current_sending.set(sending)
        error: str | None = None
        try:
            async with self._turns or nullcontext():
                await _send(client, call)
        except Exception as problem:  # noqa: BLE001 - ccxt's class says nothing reliable: the traces decide
            error = self._redacted(f"{type(problem).__name__}: {problem}")
        finally:
            current_sending.reset(token)
        body = self._without_keys(sending.body_text)
        hidden = Hidden(call.private)
        return RawReply(
            sent=sending.sent,
            status=sending.status,
            headers=sending.headers,
            body_text=hidden.in_text(body),
            json=hidden.in_json(exact_json(body)),
            error=None if error is None else hidden.in_text(error),
        )

    async def open(self) -> None:
        """Build the client, which loads large libraries the first time; sends nothing."""
        await self._open()

    async def ready_to_submit(self, cost: float) -> None:
        """Build the client and wait for the turn of a request of that cost, so that nothing holds it up once its time
        is stamped: a venue refuses what was signed seconds ago. Sends nothing.
        """
        client = await self._open()
        if client.enableRateLimit:
            await client.throttle(cost)

    async def close(self) -> None:
        """Give the connections back."""
        client, session = self._client, self._session
        self._client = self._session = self._loop = self._opening = None
        if client is not None:
            client.session = None
        if session is not None:
            await session.close()

    async def _open(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Sessions belong to an event loop: another loop (a later run) gets its own.
            if self._client is not None:
                self._client.session = None
            self._client = self._session = None
            self._loop, self._opening = loop, asyncio.Lock()
            self._turns = asyncio.Semaphore(1) if self._one_at_a_time else None
        assert self._opening is not None  # noqa: S101 - set just above
        async with self._opening:
            if self._client is None:
                ccxt = await asyncio.to_thread(import_module, "ccxt.async_support")
                self._client = self._build(getattr(ccxt, self._ccxt_id))
        return self._client

    def _build(self, exchange: type[Any]) -> Any:
        import aiohttp

        trusted = _trusted_authorities()
        # A fresh connection a request: none is ever found dead half way through a withdrawal.
        connector = aiohttp.TCPConnector(ssl=trusted, force_close=True, limit=50)
        self._session = aiohttp.ClientSession(connector=connector, trace_configs=[trace_config()])
        client = _observed(exchange)(
            {
                "apiKey": self._credentials.api_key.expose(),
                "secret": self._credentials.api_secret.expose(),
                **self._passphrase(),
                **self._rate_limiter(),
                "session": self._session,
                "timeout": int(self._timeout_seconds * 1000),
                "enableRateLimit": not self.is_local,
                "options": self._options,
            }
        )
        client.ssl_context = trusted  # else it reads the authorities again
        client.logger = _quiet
        if self._base_url is not None:
            _redirect(client, self._base_url)
        return client

    def _passphrase(self) -> dict[str, str]:
        passphrase = self._credentials.passphrase
        return {} if passphrase is None else {"password": passphrase.expose()}

    def _rate_limiter(self) -> dict[str, Any]:
        """ccxt's bucket fills only while somebody waits: what follows a dear request waits, however late it comes."""
        if not self._rate_window_seconds:
            return {}
        return {"rateLimiterAlgorithm": "rollingWindow", "rollingWindowSize": self._rate_window_seconds * 1000}

    @property
    def is_local(self) -> bool:
        """Whether it speaks to this very machine: no venue's limits are kept there."""
        return self._base_url is not None and urlsplit(self._base_url).hostname in _LOOPBACK

    def _without_keys(self, text: str | None) -> str:
        found = text or ""
        for secret in self._credentials.secrets:
            found = found.replace(secret.expose(), REDACTED)
        return found

    def _redacted(self, text: str) -> str:
        return redact_text(_QUERY.sub(f"?{REDACTED}", self._without_keys(text)))[:500]


@cache
def _trusted_authorities() -> ssl.SSLContext:
    """Read once a process: it takes fifty milliseconds, in which nothing else goes on."""
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def refuse_retries(options: Mapping[str, Any], *, where: str) -> None:
    """Raise `ConfigurationError` when ccxt is told, at any depth, to repeat failed requests."""
    for name, value in options.items():
        if name == _RETRY_OPTION and value not in (None, 0, "0"):
            raise ConfigurationError(
                f"{where}: {_RETRY_OPTION}={value!r} would send withdrawals again after a lost reply; remove it"
            )
        if isinstance(value, Mapping):
            refuse_retries(value, where=f"{where}.{name}")


def _refuse_numbers(call: Call) -> None:
    for name, value in call.params.items():
        if not isinstance(value, str):
            raise TypeError(f"{call.method}: {name} is {type(value).__name__}; give text")
    canonical_json(dict(call.objects))  # raises TypeError for fractions


async def _send(client: Any, call: Call) -> None:
    if call.unlisted is None:
        await getattr(client, call.method)(_params(call))
        return
    at = call.unlisted
    await client.request(at.path, [at.api], at.verb, _params(call), {"cost": at.cost})


def _params(call: Call) -> dict[str, Any]:
    if not call.raw_encoded:
        return {**call.params, **call.objects}
    return {name: quote(value, safe="") for name, value in call.params.items()} | dict(call.objects)


def _observed(exchange: type[Any]) -> type[Any]:
    def on_rest_response(_client: Any, code: int, *rest: Any) -> str:
        body: str = rest[4]
        sending = current_sending.get()
        if sending is not None:
            sending.status, sending.body_text = code, body
        return body.strip()

    def on_json_response(_client: Any, body: str) -> Any:
        return exact_json(body)

    async def throttle(client: Any, cost: float | None = None) -> None:
        sending = current_sending.get()
        if sending is None or not sending.moves_money:  # such a request has had its wait before
            await exchange.throttle(client, cost)

    overrides = {"throttle": throttle, "on_rest_response": on_rest_response, "on_json_response": on_json_response}
    return type(exchange.__name__, (exchange,), overrides)


def _checked_base_url(base_url: str | None) -> str | None:
    if base_url is None:
        return None
    parts = urlsplit(base_url)
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not secure or not parts.hostname or parts.query or parts.username:
        raise ConfigurationError(
            f"base_url: {base_url!r} is not usable; give an https address, or http on the loopback interface"
        )
    return base_url.rstrip("/")


def _redirect(client: Any, base_url: str) -> None:
    """Point every address of a ccxt client at `base_url`, paths kept, and its error tables back at the original."""
    originals: dict[str, str] = {}

    def moved(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: moved(item) for name, item in value.items()}
        if not isinstance(value, str):
            return value
        new = re.sub(r"^https?://[^/]+", lambda _: base_url, value)
        originals.setdefault(new, value)
        return new

    client.urls["api"] = moved(client.urls["api"])
    tables = getattr(client, "get_exceptions_by_url", None)
    if tables is not None:
        longest_first = sorted(originals.items(), key=lambda item: -len(item[0]))

        def original_tables(url: str, kind: str) -> Any:
            for new, original in longest_first:
                if url.startswith(new):
                    return tables(original + url[len(new) :], kind)
            return tables(url, kind)

        client.get_exceptions_by_url = original_tables
