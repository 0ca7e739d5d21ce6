"""Connections to receivers: looked up, judged and opened in one place, so that nothing changes in between.

A name that was public when the movement was ordered may lead into our own network now. So the check is in the
connector: it resolves, judges every address, and connects to one of those it has judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpcore

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.receivers import ReceiverPolicy, Resolver, read_url

#: Addresses of one name that are tried in turn.
_TRIES = 3


class AddressRefused(Exception):
    """The receiver's address may not be called."""


class NotResolved(Exception):
    """The receiver's name has no address at the moment."""


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens TCP connections to addresses that it has judged, and to nothing else. TLS is checked against the name."""

    def __init__(
        self, policy: ReceiverPolicy, resolver: Resolver, inner: httpcore.AsyncNetworkBackend | None = None
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._inner = inner or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in (await self._judged(host, port))[:_TRIES]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None  # noqa: S101 - there is one address at least
        raise failure

    async def _judged(self, host: str, port: int) -> list[str]:
        shown = f"[{host}]" if ":" in host else host
        # The scheme plays no part in judging addresses.
        receiver = read_url(f"https://{shown}:{port}/")
        literal = receiver.address
        try:
            found = [str(literal)] if literal is not None else await self._resolver.addresses(receiver.host, port)
        except OSError as error:
            raise NotResolved(f"{host}: {error}") from error
        if not found:
            raise NotResolved(f"{host} has no address")
        try:
            return self._policy.check_addresses(receiver, found)
        except InvalidInput as error:
            raise AddressRefused(error.problem) from None

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - httpcore's signature
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        raise AddressRefused(f"{path} is a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)
