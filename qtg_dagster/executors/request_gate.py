"""What a service of QTG lets in: signed requests, of now, each once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.errors import ConfigurationError, RequestRefused
from qtg_dagster.executors.message_auth import (
    NONCE_HEADER,
    NONCE_SHAPE,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    check_secret,
    request_is_signed,
)
from qtg_dagster.secret import Secret

WINDOW_SECONDS = 60
MOST_NONCES = 100_000


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may be worked on; its answer is signed with `secret` and bound to `nonce`."""

    nonce: str
    secret: Secret


class RequestGate:
    """Checks signature, age and novelty of requests. Give it two secrets while one replaces the other.

    It keeps at most `most_nonces` nonces, for as long as their requests are not stale; when it is full it lets nobody
    in rather than forget one. Requests from before its own start are stale: it cannot know which of them came already.
    """

    def __init__(
        self,
        secrets: Sequence[Secret],
        clock: Clock,
        *,
        window_seconds: int = WINDOW_SECONDS,
        most_nonces: int = MOST_NONCES,
    ) -> None:
        if not secrets:
            raise ConfigurationError("a service needs at least one secret to know its callers by")
        self._secrets = [check_secret(secret, "the service's secret") for secret in secrets]
        self._clock = clock
        self.window_seconds = window_seconds
        self._most = most_nonces
        self._started = self._now()
        self._seen: OrderedDict[str, int] = OrderedDict()

    def admit(self, *, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Admitted:
        """Let the request in, once; raises `RequestRefused`, whose answer must not be signed.

        Not signed, because the same nonce may have been admitted before, or may be yet: a signed refusal would let
        whoever stands between the two prove to the caller that something was not done which was.
        """
        if not headers.get(SIGNATURE_HEADER):
            raise RequestRefused("UNSIGNED", f"the request has no {SIGNATURE_HEADER} header")
        for secret in self._secrets:
            if request_is_signed(secret, method=method, path=path, headers=headers, body=body):
                break
        else:
            raise RequestRefused("WRONG_SIGNATURE", "the signature is not of this request, or of another secret")
        nonce = headers.get(NONCE_HEADER, "")
        if not NONCE_SHAPE.fullmatch(nonce):
            raise RequestRefused("BAD_NONCE", f"{NONCE_HEADER} must be 32 lower-case hex digits")
        self._take(nonce, _milliseconds(headers.get(TIMESTAMP_HEADER, "")))
        return Admitted(nonce, secret)

    def _now(self) -> int:
        return int(self._clock.now().timestamp() * 1000)

    def _take(self, nonce: str, stamped: int) -> None:
        now, window = self._now(), self.window_seconds * 1000
        if abs(now - stamped) > window:
            raise RequestRefused("STALE", f"signed {now - stamped} ms ago; {window} ms either way are allowed")
        if stamped < self._started:
            raise RequestRefused("STALE", "signed before this service started; sign it anew")
        while self._seen and next(iter(self._seen.values())) < now:
            self._seen.popitem(last=False)
        if nonce in self._seen:
            raise RequestRefused("REPLAYED", "this nonce has been used")
        if len(self._seen) >= self._most:
            raise RequestRefused("BUSY", "more requests than can be told apart came within the window")
        # One that is stamped ahead stays valid for up to two windows from now.
        self._seen[nonce] = now + 2 * window


def _milliseconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise RequestRefused("STALE", f"{TIMESTAMP_HEADER} must be Unix time in whole milliseconds")
    return int(text)
