"""The provider's own count of effects, and the knobs that only a provider has, asked over HTTP.

GET  /knobs                -> {"knobs": ["settle", "odd-status", "fail"]}
GET  /effects              -> {"effects": 7}       all there are
GET  /effects/{key}        -> {"effects": 1}       of one idempotency key
POST /knobs/{knob}/{key}   -> 204                  the action of that key settles, is given back, turns odd
"""

from __future__ import annotations

from typing import Any

import httpx

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.conformance.bench import Knob

#: What a provider does to one action; all else is done on the way to the service.
PROVIDER_KNOBS = frozenset({Knob.SETTLE, Knob.ODD_STATUS, Knob.FAIL})
_FIX = "Let --book name a service as docs/conformance.md has it."


class ProviderBook:
    """Asks a book at a base URL; `close` it at the end. Raises `InvalidInput` for an answer that is not a book's."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url.rstrip("/"), timeout=10, trust_env=False)

    async def close(self) -> None:
        """Close what is open."""
        await self._http.aclose()

    async def knobs(self) -> frozenset[Knob]:
        """Those of the provider's knobs that the book offers."""
        offered = await self._read("/knobs", "knobs")
        if not isinstance(offered, list):
            raise InvalidInput("book", f"/knobs answers {offered!r} for knobs", _FIX)
        return frozenset(knob for knob in PROVIDER_KNOBS if knob in offered)

    async def effects(self, idempotency_key: str | None) -> int:
        """Effects of a key, or all."""
        count = await self._read("/effects" if idempotency_key is None else f"/effects/{idempotency_key}", "effects")
        if type(count) is not int or count < 0:
            raise InvalidInput("book", f"effects is {count!r}, no count", _FIX)
        return count

    async def turn(self, knob: Knob, idempotency_key: str) -> None:
        """Turn one of the provider's knobs for an action."""
        await self._ask("POST", f"/knobs/{knob}/{idempotency_key}")

    async def _read(self, path: str, name: str) -> Any:
        answer = await self._ask("GET", path)
        try:
            return answer.json()[name]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput("book", f"{path} answers no JSON object with {name!r}", _FIX) from error

    async def _ask(self, method: str, path: str) -> httpx.Response:
        try:
            answer = await self._http.request(method, path)
            return answer.raise_for_status()
        except httpx.HTTPError as error:
            raise InvalidInput("book", f"{method} {path}: {type(error).__name__}: {error}", _FIX) from error
