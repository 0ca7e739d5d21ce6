"""The sandbox chain's front door: passes JSON-RPC to anvil and writes each raw transaction down first."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.chain_journal import ChainJournal

if TYPE_CHECKING:
    from aiohttp import ClientSession, web

_BODY_BYTES = 64 * 2**20
_SEND = "eth_sendRawTransaction"
_HAVE_IT = "already imported"


class NodeGone(ConfigurationError):
    """The node behind the gateway does not answer; what it took is in the journal."""


class Gateway:
    """One listening port in front of one anvil."""

    def __init__(self, node_url: str, journal: ChainJournal) -> None:
        self._node_url = node_url
        self._journal = journal
        self._session: ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._writing = asyncio.Lock()
        self.busy = asyncio.Event()

    async def connect(self) -> None:
        """Make ready to call the node."""
        from aiohttp import ClientSession, ClientTimeout, TCPConnector

        self._session = ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=60))

    async def listen(self, host: str, port: int) -> None:
        """Open the door; raises `OSError` when the port is taken."""
        from aiohttp import web

        application = web.Application(client_max_size=_BODY_BYTES)
        application.router.add_post("/", self._pass)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()

    async def close_door(self) -> None:
        """Answer what is under way and let nobody in any more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def stop(self) -> None:
        """Close everything."""
        await self.close_door()
        if self._session is not None:
            await self._session.close()

    async def call(self, method: str, *params: Any) -> Any:
        """A call of our own; raises `ValueError` with the node's words for a refusal, `NodeGone` for silence."""
        from aiohttp import ClientError

        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        try:
            _, answer = await self._forward(body)
        except (ClientError, TimeoutError, OSError) as error:
            raise NodeGone(f"the sandbox chain: anvil does not answer {method} ({type(error).__name__})") from error
        document = json.loads(answer)
        if "error" in document:
            raise ValueError(document["error"].get("message", str(document["error"])))
        return document.get("result")

    async def _pass(self, request: web.Request) -> web.Response:
        from aiohttp import web

        body = await request.read()
        # Reading the text first keeps JSON parsing off the way of everything that changes nothing.
        sends = _raw_transactions(body) if _SEND.encode() in body else []
        if not sends:
            status, answer = await self._forward(body)
            return web.Response(status=status, body=answer, content_type="application/json")
        async with self._writing:
            # Bytes that were taken before are refused when they come again ("nonce too low"): that means nothing.
            fresh = [(call_id, raw) for call_id, raw in sends if not self._journal.holds(raw)]
            for _, raw in fresh:
                self._journal.record_transaction(raw)
            status, answer = await self._forward(body)
            for raw in _refused(fresh, answer):
                self._journal.record_refusal(raw)
        self.busy.set()
        return web.Response(status=status, body=answer, content_type="application/json")

    async def _forward(self, body: bytes) -> tuple[int, bytes]:
        if self._session is None:
            raise RuntimeError("the gateway is not connected")
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._node_url, data=body, headers=headers) as reply:
            return reply.status, await reply.read()


def _raw_transactions(body: bytes) -> list[tuple[Any, str]]:
    try:
        document = json.loads(body)
    except ValueError:
        return []
    calls = document if isinstance(document, list) else [document]
    return [
        (call.get("id"), str(call["params"][0]))
        for call in calls
        if isinstance(call, dict) and call.get("method") == _SEND and isinstance(call.get("params"), list)
    ]


def _refused(sends: list[tuple[Any, str]], answer: bytes) -> list[str]:
    try:
        document = json.loads(answer)
    except ValueError:
        return []
    replies = document if isinstance(document, list) else [document]
    errors = {reply.get("id"): str(reply["error"]) for reply in replies if isinstance(reply, dict) and "error" in reply}
    return [raw for call_id, raw in sends if call_id in errors and _HAVE_IT not in errors[call_id]]
