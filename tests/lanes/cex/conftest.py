"""A venue that checks signatures, keeps a book, and breaks off in whatever way a test asks for."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest

from qtg_dagster.domain.contract import ExecutionContext
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.cex import CexLane, register

API_KEY = "key-of-the-treasury-account"
API_SECRET = "secret-nobody-may-ever-see"
DESTINATION = "0x" + "ab" * 20
CHAIN = "eip155:1"
APPLY = "/venue_a/sapi/v1/capital/withdraw/apply"
HISTORY = "/venue_a/sapi/v1/capital/withdraw/history"


class MovableClock:
    """The real time plus what a test adds."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


@dataclass
class Misbehaviour:
    """How a path answers: with these bytes instead of its own, or with none at all."""

    executes: bool = True
    raw: bytes | None = None
    no_bytes: bool = False
    answer_after: float = 0.0
    executes_after: float = 0.0


@dataclass
class StandIn:
    """The venue's state, open to the test."""

    port: int = 0
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    withdrawals: list[dict[str, Any]] = field(default_factory=list)
    deposits: list[dict[str, Any]] = field(default_factory=list)
    misbehaves: dict[str, Misbehaviour] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    balances: list[dict[str, str]] = field(default_factory=list)
    funding: list[dict[str, str]] = field(default_factory=list)
    networks: list[dict[str, Any]] = field(default_factory=list)
    coin: str = "USDC"
    clock_ahead_ms: int = 0
    later: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/venue_a"

    @property
    def posts(self) -> int:
        """Withdrawal requests that reached the venue."""
        return sum(path == APPLY for _, path, _ in self.requests)

    def on(self, path: str, **how: Any) -> None:
        """Let a path misbehave from now on."""
        self.misbehaves[path] = Misbehaviour(**how)

    def on_submit(self, **how: Any) -> None:
        self.on(APPLY, **how)

    def on_history(self, **how: Any) -> None:
        self.on(HISTORY, **how)

    def behave(self) -> None:
        self.misbehaves.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read_request(reader)
            if request is not None:
                await self._answer(*request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away: that is one of the tests
        finally:
            writer.close()

    async def _answer(self, method: str, target: str, headers: dict[str, str], body: str, writer: Any) -> None:
        path, _, query = target.partition("?")
        signed = body or query
        params = dict(parse_qsl(signed, keep_blank_values=True))
        self.requests.append((method, path, params))
        how = self.misbehaves.get(path, Misbehaviour())
        if how.executes_after:
            self.later.append(asyncio.create_task(self._execute_later(how.executes_after, path, signed, headers)))
            status, reply = 200, None
        elif how.executes:
            status, reply = self._handle(path, params, signed, headers)
        else:
            status, reply = 200, None
        if how.answer_after:
            await asyncio.sleep(how.answer_after)
        if how.no_bytes:
            writer.transport.abort()
            return
        writer.write(how.raw if how.raw is not None else http(status, json.dumps(reply).encode()))
        await writer.drain()

    async def _execute_later(self, after: float, path: str, signed: str, headers: dict[str, str]) -> None:
        await asyncio.sleep(after)
        self._handle(path, dict(parse_qsl(signed)), signed, headers)

    def _handle(self, path: str, params: dict[str, str], signed: str, headers: dict[str, str]) -> tuple[int, Any]:
        public = path.endswith(("/system/status", "/api/v3/time"))
        refusal = None if public else _refusal(params, signed, headers)
        if refusal is not None:
            return 400, refusal
        if path in self.answers:
            return 200, self.answers[path]
        return 200, self._reply(path.removeprefix("/venue_a"), params)

    def _reply(self, path: str, params: dict[str, str]) -> Any:
        replies: dict[str, Callable[[], Any]] = {
            "/sapi/v1/system/status": lambda: {"status": 0, "msg": "normal"},
            "/api/v3/time": lambda: {"serverTime": int(time.time() * 1000) + self.clock_ahead_ms},
            "/sapi/v1/account/apiRestrictions": lambda: {"ipRestrict": True, "enableWithdrawals": True},
            "/sapi/v1/capital/config/getall": lambda: [
                {"coin": self.coin, "withdrawAllEnable": True, "networkList": self.networks}
            ],
            "/sapi/v1/localentity/questionnaire-requirements": lambda: {"questionnaireCountryCode": "NIL"},
            "/sapi/v1/asset/get-funding-asset": lambda: self.funding,
            "/sapi/v3/asset/getUserAsset": lambda: self.balances,
            "/sapi/v1/capital/withdraw/apply": lambda: self._withdraw(params),
            "/sapi/v1/capital/withdraw/history": lambda: self._history(params),
            "/sapi/v1/capital/deposit/hisrec": lambda: self._deposits(params),
        }
        return replies[path]()

    def _withdraw(self, params: dict[str, str]) -> dict[str, str]:
        row = {
            "id": f"w{len(self.withdrawals) + 1:031d}",
            "withdrawOrderId": params["withdrawOrderId"],
            "coin": params["coin"],
            "network": params["network"],
            "address": params["address"],
            "amount": str(float(params["amount"]) - 1),
            "transactionFee": "1",
            "status": 4,
            "transferType": 0,
            "applyTime": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        }
        self.withdrawals.append(row)
        return {"id": row["id"]}

    def _history(self, params: dict[str, str]) -> list[dict[str, Any]]:
        days = (int(params["endTime"]) - int(params["startTime"])) / 86_400_000
        assert days <= (7 if "withdrawOrderId" in params else 90)
        ids = params["idList"].split(",") if "idList" in params else None
        return [
            row
            for row in self.withdrawals
            if row["withdrawOrderId"] == params.get("withdrawOrderId", row["withdrawOrderId"])
            and (ids is None or row["id"] in ids)
            and int(params["startTime"]) <= _applied_ms(row) <= int(params["endTime"])
        ]

    def _deposits(self, params: dict[str, str]) -> list[dict[str, Any]]:
        offset, limit = int(params["offset"]), int(params["limit"])
        return [row for row in self.deposits if row["coin"] == params["coin"]][offset : offset + limit]


def _applied_ms(row: dict[str, Any]) -> int:
    return int(datetime.strptime(row["applyTime"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp() * 1000)


def _refusal(params: dict[str, str], signed: str, headers: dict[str, str]) -> dict[str, Any] | None:
    content, _, signature = signed.rpartition("&signature=")
    expected = hmac.new(API_SECRET.encode(), content.encode(), hashlib.sha256).hexdigest()
    if headers.get("x-mbx-apikey") != API_KEY:
        return {"code": -2015, "msg": "Invalid API-key, IP, or permissions for action."}
    if not hmac.compare_digest(unquote(signature), expected):
        return {"code": -1022, "msg": "Signature for this request is not valid."}
    if abs(int(params["timestamp"]) - time.time() * 1000) > int(params.get("recvWindow", "5000")):
        return {"code": -1021, "msg": "Timestamp for this request is outside of the recvWindow."}
    return None


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], str] | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", "0") or "0"))
    return method, target, headers, body.decode()


def http(status: int, body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    """One HTTP/1.1 response."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {kind}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if not any(name.lower() in ("content_length", "transfer_encoding") for name in headers) and status != 204:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


NETWORK = {
    "network": "ETH",
    "withdrawEnable": True,
    "depositEnable": True,
    "withdrawFee": "1",
    "withdrawMin": "2",
    "withdrawMax": "1000000",
    "withdrawIntegerMultiple": "0.000001",
    "sameAddress": False,
    "memoRegex": "",
    "addressRegex": "^(0x)[0-9A-Fa-f]{40}$",
}


@pytest.fixture
def response() -> Callable[..., bytes]:
    """Builds raw HTTP responses."""
    return http


@pytest.fixture
async def venue() -> AsyncIterator[StandIn]:
    stand_in = StandIn(
        networks=[dict(NETWORK), {**NETWORK, "network": "TRX", "addressRegex": ""}],
        balances=[{"asset": "USDC", "free": "1000", "locked": "5", "freeze": "0", "withdrawing": "0"}],
    )
    server = await asyncio.start_server(stand_in.serve, "127.0.0.1", 0)
    stand_in.port = server.sockets[0].getsockname()[1]
    yield stand_in
    for task in stand_in.later:
        task.cancel()
    server.close()
    await server.wait_closed()


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def make_inventory(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Inventory]:
    """An inventory with one venue; keywords change its entry."""
    monkeypatch.setenv("VENUE_A_KEY", API_KEY)
    monkeypatch.setenv("VENUE_A_SECRET", API_SECRET)

    def make(base_url: str, **entry: Any) -> Inventory:
        chains = {
            CHAIN: {"name": "Ethereum", "rpc_urls": ["http://127.0.0.1:1"], "native_asset": "ETH"},
            "tron:mainnet": {"name": "Tron", "rpc_urls": ["http://127.0.0.1:1"], "native_asset": "ETH"},
            "eip155:2": {"name": "Nowhere", "rpc_urls": ["http://127.0.0.1:1"], "native_asset": "ETH"},
        }
        venue = {
            "wire": "binance",
            "base_url": base_url,
            "api_key": {"env": "VENUE_A_KEY"},
            "api_secret": {"env": "VENUE_A_SECRET"},
            "assets": {"USDC": "USDC"},
            "networks": {CHAIN: "ETH", "tron:mainnet": "TRC20", "eip155:2": "FOO"},
            "settle_seconds": 7,
        }
        return Inventory.model_validate(
            {
                "assets": {"USDC": {"symbol": "USDC", "decimals": 8}, "ETH": {"symbol": "ETH", "decimals": 18}},
                "chains": chains,
                "venues": {"venue_a": {**venue, **entry}},
            }
        )

    return make


@dataclass
class Lane:
    """The registered lane, its executors by role."""

    cex: CexLane
    executors: ExecutorRegistry

    def executor(self, role: str) -> Any:
        return self.executors.resolve(f"exec.cex.{role}")


@pytest.fixture
async def lane(venue: StandIn, clock: MovableClock, make_inventory: Callable[..., Inventory]) -> AsyncIterator[Lane]:
    executors = ExecutorRegistry()
    cex = register(executors, make_inventory(venue.base_url), clock=clock, timeout_seconds=0.6)
    yield Lane(cex, executors)
    await cex.close()


@pytest.fixture
def work_order() -> Callable[..., ExecutionContext]:
    """Builds execution contexts; keywords go into the node's config, `context` replaces whole fields."""

    def make(context: dict[str, Any] | None = None, **config: Any) -> ExecutionContext:
        node_config = {
            "venue": "venue_a",
            "asset": "USDC",
            "chain": CHAIN,
            "amount": "12.5",
            "destination": DESTINATION,
            **config,
        }
        fields: dict[str, Any] = {
            "request_id": "r1",
            "request_node_id": "n1",
            "compiled_plan_hash": "h",
            "template_key": "t",
            "template_version": 1,
            "node_key": "withdraw",
            "node_kind": "action",
            "action_type": "cex_withdrawal",
            "attempt_no": 1,
            "intent": {},
            "input_params": {},
            "resolved_bindings": {},
            "risk_controls": {"destination_allowlist": [DESTINATION]},
            "node_config": {name: value for name, value in node_config.items() if value is not None},
            "provider_context": {},
            "idempotency_key": "n1:1",
            **(context or {}),
        }
        return ExecutionContext.model_validate(fields)

    return make
