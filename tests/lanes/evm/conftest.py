"""A real chain for each test, a fault proxy in front of it, and a desk that transfers on it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from eth_account import Account

from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    PreparedAction,
    SigningIntent,
    SignRequest,
)
from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.executors.signers.local import build_signer
from qtg_dagster.host.node_tools import anvil_binary
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.evm.finality_observe import FinalityObserve
from qtg_dagster.lanes.evm.receive_observe import ReceiveObserve
from qtg_dagster.lanes.evm.rpc import Chains
from qtg_dagster.lanes.evm.transfer import Transfer
from qtg_dagster.sandbox import contracts
from qtg_dagster.sandbox.faucet import Faucet

CHAIN = "eip155:31337"
NODE_ID = "11111111-1111-1111-1111-111111111111"
SIGNER = "signer.local.treasury"
FRIEND = "0x" + "5a" * 20


class MemoryLedger:
    """A nonce ledger that forgets with the test."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str, str, int], int] = {}

    async def reserve(self, *, chain: str, sender: str, request_node_id: str, attempt_no: int, chain_nonce: int) -> int:
        key = (chain, sender, request_node_id, attempt_no)
        if key not in self.held:
            taken = {nonce for (c, s, _, _), nonce in self.held.items() if (c, s) == (chain, sender)}
            self.held[key] = next(n for n in range(chain_nonce, chain_nonce + 100) if n not in taken)
        return self.held[key]


class MemoryJournal:
    """A signer's journal that forgets with the test."""

    def __init__(self) -> None:
        self.by_nonce: dict[tuple[str, str, int], str] = {}
        self.by_role: dict[tuple[str, str], str] = {}

    async def record(
        self, *, chain: str, sender: str, nonce: int, request_node_id: str, role: str, effect_hash: str
    ) -> None:
        for book, key in ((self.by_nonce, (chain, sender, nonce)), (self.by_role, (request_node_id, role))):
            if book.setdefault(key, effect_hash) != effect_hash:  # type: ignore[attr-defined]
                raise SigningRefused(f"{key} has signed another effect")


@dataclass
class FaultProxy:
    """Passes JSON-RPC on, counts it, and misbehaves on order."""

    url: str = ""
    node_url: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    lose_reply_to: set[str] = field(default_factory=set)
    refuse_unseen: set[str] = field(default_factory=set)
    rewrite: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    http_error: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        call = json.loads(await request.read())
        method = call["method"]
        self.calls[method] += 1
        if method in self.http_error:
            status, headers = self.http_error[method]
            return web.Response(status=status, headers=headers, text="<html>no</html>")
        if method in self.refuse_unseen:
            _cut(request)
        async with ClientSession() as session, session.post(self.node_url, json=call) as reply:
            answer = await reply.json()
        if method in self.lose_reply_to:
            _cut(request)
        if method in self.rewrite:
            answer = self.rewrite[method](answer)
        return web.json_response(answer)


def _cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()
    raise ConnectionResetError


@pytest.fixture
def anvil_url() -> Iterator[str]:
    """A fresh anvil that mines each transaction at once and finalises two blocks behind."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(anvil_binary()), "--port", str(port), "--chain-id", "31337", "--slots-in-an-epoch", "1", "--quiet"]
    process = subprocess.Popen(command)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert process.poll() is None, "anvil ended"
            assert time.monotonic() < deadline, "anvil does not listen"
            time.sleep(0.01)
        yield url
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def faucet(anvil_url: str) -> Iterator[Faucet]:
    faucet = Faucet(anvil_url, 31337)
    yield faucet
    faucet.close()


@pytest.fixture
async def proxy(anvil_url: str) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(node_url=anvil_url)
    application = web.Application()
    application.router.add_post("/", proxy.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield proxy
    await runner.cleanup()


@dataclass
class Desk:
    """Everything a test of the lane touches."""

    faucet: Faucet
    proxy: FaultProxy
    inventory: Inventory
    chains: Chains
    transfer: Transfer
    receive: ReceiveObserve
    finality: FinalityObserve
    ledger: MemoryLedger
    sign: Callable[[ExecutionContext, PreparedAction], Awaitable[PreparedAction]]
    token: str
    treasury: str

    def context(self, *, node_refs: dict[str, Any] | None = None, **config: str) -> ExecutionContext:
        """A transfer of 12.5 USDC to a friend, unless told otherwise."""
        attempt = int(config.pop("attempt_no", "1"))
        prepared = config.pop("prepared", None)
        base = {"chain": CHAIN, "asset": "USDC", "account": "treasury", "amount": "12.5", "destination": FRIEND}
        return ExecutionContext(
            request_id="22222222-2222-2222-2222-222222222222",
            request_node_id=NODE_ID,
            compiled_plan_hash="0" * 64,
            template_key="t",
            template_version=1,
            node_key="transfer",
            node_kind="action",
            action_type="evm_transfer",
            attempt_no=attempt,
            intent={},
            input_params={},
            resolved_bindings={},
            risk_controls={},
            node_config=base | config,
            provider_context={},
            idempotency_key="k",
            node_refs=node_refs or {},
            prepared=prepared,
        )

    async def prepared(self, **config: str) -> tuple[ExecutionContext, PreparedAction]:
        """A transfer that is checked, prepared and signed, with the context that later looks are given."""
        context = self.context(**config)
        refusal = await self.transfer.preflight(context)
        assert refusal is None, refusal
        prepared = await self.sign(context, await self.transfer.prepare(context))
        return context.model_copy(update={"prepared": prepared}), prepared

    async def observe_until(
        self, context: ExecutionContext, wanted: Callable[[ExecutionResult], bool], *, recover: bool = False
    ) -> ExecutionResult:
        """Look again and again, carrying refs over as the engine does, until `wanted`; bounded."""
        for _ in range(200):
            look = self.transfer.recover if recover else self.transfer.observe
            result = await look(context)
            if wanted(result):
                return result
            context = context.model_copy(update={"node_refs": {**context.node_refs, **result.provider_refs}})
            await asyncio.sleep(0.02)
        pytest.fail(f"never seen; last: {result}")

    async def balance(self, owner: str) -> int:
        return await asyncio.to_thread(contracts.balance, self.faucet, self.token, owner)

    def mine(self, blocks: int) -> None:
        self.faucet.call("anvil_mine", hex(blocks))


@pytest.fixture
async def desk(faucet: Faucet, proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Desk]:
    token = await asyncio.to_thread(contracts.deploy_usdc, faucet)
    keystore = Account.encrypt("0x" + "42" * 32, "open sesame", kdf="pbkdf2", iterations=1)
    treasury = str(Account.from_key("0x" + "42" * 32).address).lower()
    (tmp_path / "keystore.json").write_text(json.dumps(keystore))
    (tmp_path / "passphrase").write_text("open sesame")
    await asyncio.to_thread(contracts.mint, faucet, token, treasury, 1_000_000_000)
    await asyncio.to_thread(faucet.send, to=treasury, value=10**18)
    inventory = Inventory.model_validate(
        {
            "assets": {"ETH": {"symbol": "ETH", "decimals": 18}, "USDC": {"symbol": "USDC", "decimals": 6}},
            "chains": {
                CHAIN: {
                    "name": "test",
                    "rpc_urls": [proxy.url],
                    "native_asset": "ETH",
                    "tokens": {"USDC": token},
                    "confirmations": 2,
                }
            },
            "accounts": {"treasury": {"chain": CHAIN, "address": treasury, "signer": SIGNER}},
            "signers": {
                SIGNER: {
                    "keystore": str(tmp_path / "keystore.json"),
                    "passphrase": {"file": str(tmp_path / "passphrase")},
                    "policy": {"destinations": [FRIEND, token], "caps": {"USDC": "1000", "ETH": "0.5"}},
                }
            },
        }
    )
    signer = build_signer(SIGNER, inventory.signers[SIGNER], inventory, MemoryJournal())

    async def sign(context: ExecutionContext, prepared: PreparedAction) -> PreparedAction:
        config = context.node_config
        request = SignRequest(
            request_id=context.request_id,
            request_node_id=context.request_node_id,
            signing_intent=SigningIntent(
                action=prepared.action_type,
                asset=config["asset"],
                amount=config["amount"],
                destination=config["destination"],
                allowed_payload_hash=prepared.payload_hash,
            ),
            payload_format=prepared.payload_format,
            payload=prepared.payload,
            payload_hash=prepared.payload_hash,
        )
        signed = await signer.sign(request)
        refs = {**prepared.provider_refs, **signed.provider_refs}
        return prepared.model_copy(update={"signed_payload": signed.signed_payload, "provider_refs": refs})

    chains, ledger = Chains(inventory), MemoryLedger()
    yield Desk(
        faucet=faucet,
        proxy=proxy,
        inventory=inventory,
        chains=chains,
        transfer=Transfer(chains, ledger),
        receive=ReceiveObserve(chains),
        finality=FinalityObserve(chains),
        ledger=ledger,
        sign=sign,
        token=token,
        treasury=treasury,
    )
    await chains.close()
