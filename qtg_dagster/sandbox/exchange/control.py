"""A typed client of the control API, for tests and the demo."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import httpx

from qtg_dagster.domain.errors import QtgError
from qtg_dagster.sandbox.exchange.conditions import Conditions
from qtg_dagster.sandbox.exchange.dialect import Role
from qtg_dagster.sandbox.exchange.faults import Fault, FaultKind
from qtg_dagster.secret import Secret

WITHDRAW = Role.WITHDRAW.value
WITHDRAWAL_HISTORY = Role.WITHDRAWALS.value
DEPOSIT_HISTORY = Role.DEPOSITS.value


class ControlRefused(QtgError):
    """The control API did not do what was asked; the message is its answer."""


class ExchangeControl:
    """One stand-in's side door. `base_url` is the server's root, without a venue."""

    def __init__(self, base_url: str, token: Secret) -> None:
        headers = {"authorization": f"Bearer {token.expose()}"}
        self._http = httpx.AsyncClient(base_url=base_url, headers=headers, timeout=10, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _ask(self, method: str, path: str, *, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        chosen = {key: value for key, value in (query or {}).items() if value is not None}
        reply = await self._http.request(method, f"/_control{path}", params=chosen, json=body)
        if reply.status_code != 200:
            raise ControlRefused(f"{method} {path}: {reply.status_code}: {reply.text[:500]}")
        return reply.json()

    async def order(self, kind: FaultKind, *, venue: str = "*", endpoint: str = WITHDRAW, **details: Any) -> int:
        """Order a fault (fields of `Fault` as details); returns its number."""
        fault = Fault(kind=kind, venue=venue, endpoint=endpoint, **details)
        answer = await self._ask("POST", "/faults", body=fault.model_dump(mode="json"))
        return int(answer["id"])

    async def faults(self) -> list[dict[str, Any]]:
        """Faults that have not hit yet."""
        waiting: list[dict[str, Any]] = await self._ask("GET", "/faults")
        return waiting

    async def clear_faults(self) -> None:
        await self._ask("DELETE", "/faults")

    async def set_conditions(self, venue: str, **changes: Any) -> Conditions:
        """Change some of a venue's conditions (fields of `Conditions`); returns all of them."""
        return Conditions.model_validate(await self._ask("PATCH", f"/conditions/{venue}", body=changes))

    async def reset_conditions(self, venue: str) -> None:
        """Make the venue healthy again."""
        await self._ask("PATCH", f"/conditions/{venue}", body=Conditions().model_dump(mode="json"))

    async def show_instead(self, venue: str, row_id: str, **fields: Any) -> None:
        """Have the venue's histories show these fields for a withdrawal or deposit; none = the truth again."""
        await self._ask("PUT", f"/shown/{venue}/{row_id}", body=fields)

    async def show_status(self, venue: str, history: str, row_id: str, status: str | None) -> None:
        """Have a history (withdrawals or deposits) show a row in another status, by its name; None = the truth."""
        await self._ask("PUT", f"/shown_status/{venue}/{history}/{row_id}", body={"status": status})

    async def add_rows(self, venue: str, history: str, count: int, **details: Any) -> list[str]:
        """Have others move funds on the account: `count` rows in a history; ids, newest first.

        Details: `coin`, `newest_ms` (the time of the newest row), `spacing_ms` between rows, `status` (by its name).
        Without a status, withdrawals are called off and deposits credited.
        """
        answer = await self._ask("POST", f"/rows/{venue}/{history}", body={"count": count, **details})
        return [str(key) for key in answer["ids"]]

    async def go_on(self, venue: str, history: str, row_id: str, status: str) -> None:
        """Really bring a row that others made, and that has not ended, to another status, by its name."""
        await self._ask("PUT", f"/rows/{venue}/{history}/{row_id}", body={"status": status})

    async def reject(self, venue: str, withdrawal_id: str, *, status: int = 3, info: str = "") -> None:
        """Really end a withdrawal that is not signed yet (1 cancelled, 3 rejected, 5 failure); funds return."""
        await self._ask("POST", f"/reject/{venue}/{withdrawal_id}", body={"status": status, "info": info})

    async def pause_payouts(self, venue: str | None = None) -> None:
        await self._ask("POST", "/pause_payouts", query={"venue": venue})

    async def resume_payouts(self, venue: str | None = None) -> None:
        await self._ask("POST", "/resume_payouts", query={"venue": venue})

    async def health(self) -> dict[str, Any]:
        """Venues, and those whose payouts are paused."""
        answer: dict[str, Any] = await self._ask("GET", "/health")
        return answer

    async def moves(self, *, venue: str | None = None, after: int = 0) -> list[dict[str, Any]]:
        """The books' moves in order: seq, at_ms, venue, coin, kind, amount, source, target, reference."""
        rows: list[dict[str, Any]] = await self._ask("GET", "/moves", query={"venue": venue, "after": after})
        return rows

    async def balances(self) -> dict[str, dict[str, dict[str, str]]]:
        """venue -> coin -> {free, withdrawing, frozen}."""
        answer: dict[str, dict[str, dict[str, str]]] = await self._ask("GET", "/balances")
        return answer

    async def withdrawals(self, venue: str) -> list[dict[str, Any]]:
        """The venue's true withdrawals, newest first: id, order_id, net, fee, status, tx_hash, nonce, ..."""
        rows: list[dict[str, Any]] = await self._ask("GET", "/withdrawals", query={"venue": venue})
        return rows

    async def deposits(self, venue: str) -> list[dict[str, Any]]:
        """The venue's true deposits, newest first."""
        rows: list[dict[str, Any]] = await self._ask("GET", "/deposits", query={"venue": venue})
        return rows

    async def requests(self, *, venue: str | None = None, endpoint: str | None = None) -> list[dict[str, Any]]:
        """Requests since the process started: method, endpoint, role, order_id, fault, outcome, copy_outcome.

        `endpoint` is a path or a role.
        """
        query = {"venue": venue, "endpoint": endpoint}
        rows: list[dict[str, Any]] = await self._ask("GET", "/requests", query=query)
        return rows
