"""Signing services over real HTTP that follow the published wires, and misbehave when told to."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from eth_account import Account

from qtg_dagster.domain.contract import SignedPayload, SignRequest
from qtg_dagster.executors.message_auth import NONCE_HEADER, answer_headers, request_is_signed
from qtg_dagster.executors.signers.reading import read_payload
from qtg_dagster.secret import Secret

KEY = "0x" + "4c" * 32
ADDRESS = str(Account.from_key(KEY).address).lower()
OTHERS_KEY = "0x" + "7d" * 32
OTHERS_ADDRESS = str(Account.from_key(OTHERS_KEY).address).lower()
SECRET = "canary-hmac-secret-4711-canary-hmac-secret"
STRANGER = "0x" + "66" * 20
TEN_MEGABYTES = 10 * 1024 * 1024


class Service:
    """An HTTP service of this process. `trick` names what it does instead of answering honestly."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[Any] = []
        self.key = KEY
        self.trick = ""
        self.instead: dict[str, Any] = {}
        self.written = 0
        self.elsewhere = 0

    @property
    def signatures(self) -> int:
        """How often the key operation was asked for."""
        raise NotImplementedError

    def sign(self, transaction: dict[str, Any]) -> str:
        """Sign what was asked, or what it is told to sign instead."""
        signed = Account.sign_transaction(transaction | self.instead, self.key)
        return "0x" + bytes(signed.raw_transaction).hex()

    async def tricked(self, request: web.Request) -> web.StreamResponse | None:
        match self.trick:
            case "redirect":
                raise web.HTTPTemporaryRedirect(self.url + "/elsewhere")
            case "hang":
                await asyncio.Event().wait()
            case "hang half-way":
                response = await self._begin(request)
                await response.write(b"{")
                await asyncio.Event().wait()
            case "ten megabytes":
                return await self._flood(request)
            case "not json":
                return web.Response(body=b"<html>hello</html>")
            case "broken":
                return web.Response(status=500, text="stack trace")
        return None

    async def _begin(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        return response

    async def _flood(self, request: web.Request) -> web.StreamResponse:
        response = await self._begin(request)
        chunk = b"0" * 65_536
        while self.written < TEN_MEGABYTES:
            await response.write(chunk)
            self.written += len(chunk)
        return response

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/elsewhere":
            self.elsewhere += 1
            return web.Response(text="{}")
        return await self.tricked(request) or await self.answer(request)

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Service]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()


class SigningService(Service):
    """Speaks QTG's own documents."""

    def __init__(self) -> None:
        super().__init__()
        self.secret = Secret(SECRET)
        self.status = 200
        self.document: dict[str, Any] = {}
        self.unsigned = False

    @property
    def signatures(self) -> int:
        return sum(path == "/sign" for path, _ in self.asked)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append((request.path, body))
        if not request_is_signed(
            self.secret, method=request.method, path=request.path, headers=request.headers, body=body
        ):
            self.unsigned = True
            return self._answered(request, 401, {})
        if self.status != 200:
            error = {
                "code": "SAID",
                "message": "over the daily limit",
                "nothing_done": True,
                "field": None,
                "fix": None,
            }
            return self._answered(request, self.status, {"protocol_version": "1.0", "error": error} | self.document)
        if request.path == "/health":
            healthy = {"health_state": "healthy", "detail": "", "signer_address": Account.from_key(self.key).address}
            report = {name: value for name, value in (healthy | self.document).items() if value != "left out"}
            return self._answered(request, 200, {"protocol_version": "1.0", "report": report})
        return self._answered(request, 200, self._signed(SignRequest.model_validate_json(body)) | self.document)

    def _signed(self, asked: SignRequest) -> dict[str, Any]:
        return SignedPayload(
            payload_hash=asked.payload_hash,
            signed_payload=self.sign(read_payload(asked.payload).to_sign()),
            signer_key="its own name",
            signer_address=ADDRESS,
        ).model_dump(mode="json")

    def _answered(self, request: web.Request, status: int, document: dict[str, Any]) -> web.Response:
        body = json.dumps({name: value for name, value in document.items() if value != "left out"}).encode()
        nonce = request.headers.get(NONCE_HEADER, "")
        signed = {} if self.unsigned else answer_headers(self.secret, nonce=nonce, status=status, body=body)
        return web.Response(status=status, body=body, headers=signed, content_type="application/json")


class Web3SignerService(Service):
    """The JSON-RPC of Web3Signer's eth1 mode: one chain, which it is started with; keys by their addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.chain_id = 31337
        self.document: dict[str, Any] = {}
        self.error_status = 200
        self.addresses = [ADDRESS]

    @property
    def signatures(self) -> int:
        return sum(call["method"] == "eth_signTransaction" for call in self.asked)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        call = await request.json()
        self.asked.append(call)
        answer = {"jsonrpc": "2.0", "id": call["id"], **self._result(call)} | self.document
        status = self.error_status if "error" in answer else 200
        return web.json_response(answer, status=status)

    def _result(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["method"] == "eth_accounts":
            return {"result": self.addresses}
        if call["method"] != "eth_signTransaction":
            return {"error": {"code": -32601, "message": "Method not found"}}
        fields = call["params"][0]
        if len(call["params"]) != 1 or "nonce" not in fields:
            return {"error": {"code": -32602, "message": "Invalid params"}}
        if fields["from"] not in self.addresses:
            return {"error": {"code": -32000, "message": "No unlocked account matches the Sender"}}
        return {"result": self.sign(self._transaction(fields))}

    def _transaction(self, fields: dict[str, Any]) -> dict[str, Any]:
        numbers = {name: int(fields[name], 16) for name in ("nonce", "value", "gas")}
        fees = {name: int(fields[name], 16) for name in ("maxFeePerGas", "maxPriorityFeePerGas") if name in fields}
        kind: dict[str, Any] = {"type": 2, **fees} if len(fees) == 2 else {"gasPrice": 0}
        to = bytes.fromhex(fields["to"][2:])
        return {"chainId": self.chain_id, "to": to, "data": fields["data"], **numbers, **kind}
