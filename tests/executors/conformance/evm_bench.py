"""Benches of the EVM executors over a real chain of their own, with the fault proxy of the lane's tests before it."""

# ruff: noqa: ARG002 - the protocol names what some benches do not read
from __future__ import annotations

import asyncio
import itertools
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from aiohttp import web
from eth_account import Account

from qtg_dagster.domain.contract import ExecutionContext, PreparedAction
from qtg_dagster.engine.context import build_sign_request
from qtg_dagster.executors.conformance import Declared, Knob
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.executors.signers.local import build_signer
from qtg_dagster.host.node_tools import anvil_binary
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.evm import register
from qtg_dagster.lanes.evm.rpc import HEALTH_SECONDS
from qtg_dagster.sandbox import contracts
from qtg_dagster.sandbox.faucet import Faucet
from tests.executors.conformance.memory import order
from tests.lanes.evm.conftest import CHAIN, SIGNER, FaultProxy, MemoryJournal, MemoryLedger, _listens

_KEY = "0x" + "42" * 32
_PASSPHRASE = "open sesame for the bench"
_RPC_KEY = "canary-of-the-rpc-address"
_TREASURY = str(Account.from_key(_KEY).address).lower()
_SEND = "eth_sendRawTransaction"
_UNITS = 12_500_000
_MOST_ORDERS = 200
_ON_THE_CHAIN = {Knob.SETTLE: 5, Knob.ODD_STATUS: 5}


def _recipient(number: int) -> str:
    return f"0x{0x5A << 152 | number:040x}"


class Gateway:
    """The fault proxy at an address that can be taken away and can fall silent."""

    def __init__(self, node_url: str) -> None:
        self.faults = FaultProxy(node_url=node_url)
        self.port = 0
        self.speaks = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{_RPC_KEY}"

    async def open(self) -> None:
        if self._runner is None:
            application = web.Application()
            application.router.add_post("/{path:.*}", self._handle)
            self._runner = web.AppRunner(application, shutdown_timeout=0)
            await self._runner.setup()
            await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
            self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        await self.speaks.wait()
        return await self.faults.handle(request)


class EvmBench:
    """One treasury account. Every order pays a recipient of its own, whose balance is the book."""

    canaries = (_KEY, "42" * 32, _PASSPHRASE, _RPC_KEY)
    knobs = frozenset(Knob) - {Knob.FAIL}
    declared = Declared(acts=False)

    def __init__(self, world: World, executor: Any) -> None:
        self.world, self.executor = world, executor
        self._numbers = itertools.count(1)

    async def effects(self, idempotency_key: str | None) -> int:
        return await asyncio.to_thread(self.world.payments, idempotency_key)

    async def sign(self, context: ExecutionContext, prepared: PreparedAction) -> PreparedAction:
        signed = await self.world.signer.sign(build_sign_request(context, prepared))
        refs = {**prepared.provider_refs, **signed.provider_refs}
        return prepared.model_copy(update={"signed_payload": signed.signed_payload, "provider_refs": refs})

    def session(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def turn(self, knob: Knob, context: ExecutionContext) -> None:
        gateway = self.world.gateway
        if knob is Knob.AWAY:
            await gateway.close()
        elif knob is Knob.SILENT:
            gateway.speaks.clear()
        elif knob is Knob.LOSE_REPLY:
            gateway.faults.lose_reply_to.add(_SEND)
        elif knob is Knob.LOSE_REQUEST:
            gateway.faults.refuse_unseen.add(_SEND)
        else:
            await asyncio.to_thread(self.world.mine, _ON_THE_CHAIN[knob])
        if knob is Knob.ODD_STATUS:
            gateway.faults.rewrite["eth_getTransactionReceipt"] = _odd

    async def calm(self) -> None:
        gateway = self.world.gateway
        for turned in (gateway.faults.lose_reply_to, gateway.faults.refuse_unseen, gateway.faults.rewrite):
            turned.clear()
        gateway.speaks.set()
        await gateway.open()

    async def _seen_on_chain(self, action_type: str) -> ExecutionContext:
        """A credit to the treasury, mined just now."""
        data = contracts.call("mint(address,uint256)", ("address", _TREASURY), ("uint256", 7_250_000))
        receipt = await asyncio.to_thread(self.world.faucet.send, to=self.world.token, data=data)
        config = {"chain": CHAIN, "asset": "USDC", "account": "treasury", "tx_hash": receipt["transactionHash"]}
        return order(next(self._numbers), config, action_type=action_type)


class TransferBench(EvmBench):
    role = "transfer"
    declared = Declared(varies=frozenset({"expires_at"}), resends_signed_bytes=True)

    async def context(self) -> ExecutionContext:
        self.world.forget_nonces()
        number = next(self._numbers)
        config = {"chain": CHAIN, "asset": "USDC", "account": "treasury", "amount": "12.5"}
        return order(number, {**config, "destination": _recipient(number)}, action_type="evm_transfer")


class ReceiveObserveBench(EvmBench):
    role = "receive_observe"

    async def context(self) -> ExecutionContext:
        return await self._seen_on_chain("evm_receive")


class FinalityObserveBench(EvmBench):
    role = "finality_observe"

    async def context(self) -> ExecutionContext:
        return await self._seen_on_chain("evm_finality")


class World:
    """A chain with a token, the treasury's account and signer, and the way to them."""

    def __init__(self, node_url: str, folder: Path, gateway: Gateway) -> None:
        self.faucet = Faucet(node_url, 31337)
        self.gateway = gateway
        self.token = contracts.deploy_usdc(self.faucet)
        contracts.mint(self.faucet, self.token, _TREASURY, _UNITS * _MOST_ORDERS)
        self.faucet.send(to=_TREASURY, value=10**18)
        self.ledger, self.journal = MemoryLedger(), MemoryJournal()
        self.inventory = self._inventory(folder)
        self.signer = build_signer(SIGNER, self.inventory.signers[SIGNER], self.inventory, self.journal)

    def forget_nonces(self) -> None:
        """What was prepared and never sent must not leave a gap for the next order."""
        for book in (self.ledger.held, self.journal.by_nonce, self.journal.by_role):
            book.clear()

    def payments(self, idempotency_key: str | None) -> int:
        """Mined payments of an order, or all of the treasury's, once nothing waits in the pool."""
        deadline = time.monotonic() + 20
        while int(self.faucet.call("txpool_status")["pending"], 16):
            assert time.monotonic() < deadline, "the pool does not empty"
            time.sleep(0.005)
        if idempotency_key is None:
            return int(self.faucet.call("eth_getTransactionCount", _TREASURY, "latest"), 16)
        return contracts.balance(self.faucet, self.token, _recipient(int(idempotency_key, 16))) // _UNITS

    def mine(self, blocks: int) -> None:
        self.faucet.call("anvil_mine", hex(blocks))

    def _inventory(self, folder: Path) -> Inventory:
        (folder / "keystore.json").write_text(
            json.dumps(Account.encrypt(_KEY, _PASSPHRASE, kdf="pbkdf2", iterations=1))
        )
        (folder / "passphrase").write_text(_PASSPHRASE)
        policy = {"destinations": [_recipient(n) for n in range(_MOST_ORDERS)] + [self.token], "caps": {"USDC": "1000"}}
        signer = {"keystore": str(folder / "keystore.json"), "passphrase": {"file": str(folder / "passphrase")}}
        chain = {"name": "test", "rpc_urls": [self.gateway.url], "native_asset": "ETH", "confirmations": 2}
        return Inventory.model_validate(
            {
                "assets": {"ETH": {"symbol": "ETH", "decimals": 18}, "USDC": {"symbol": "USDC", "decimals": 6}},
                "chains": {CHAIN: {**chain, "tokens": {"USDC": self.token}}},
                "accounts": {"treasury": {"chain": CHAIN, "address": _TREASURY, "signer": SIGNER}},
                "signers": {SIGNER: {**signer, "policy": policy}},
            }
        )


EVM_BENCHES: dict[str, type[Any]] = {
    f"exec.evm.{bench.role}": bench for bench in (TransferBench, ReceiveObserveBench, FinalityObserveBench)
}


@asynccontextmanager
async def open_evm_bench(key: str, health_seconds: float | None = None) -> AsyncIterator[EvmBench]:
    """The executor under its key, as the lane registers it but for `health_seconds`, on a chain of its own."""
    async with AsyncExitStack() as stack:
        node_url = stack.enter_context(_anvil())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        gateway = Gateway(node_url)
        await gateway.open()
        stack.push_async_callback(gateway.close)
        world = await asyncio.to_thread(World, node_url, folder, gateway)
        stack.callback(world.faucet.close)
        executors = ExecutorRegistry()
        lane = register(executors, world.inventory, world.ledger, health_seconds=health_seconds or HEALTH_SECONDS)
        stack.push_async_callback(lane.close)
        bench: EvmBench = EVM_BENCHES[key](world, executors.resolve(key))
        await bench.calm()
        yield bench


@contextmanager
def _anvil() -> Iterator[str]:
    """A fresh node that mines each transaction at once and finalises two blocks behind."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(anvil_binary()), "--port", str(port), "--chain-id", "31337", "--slots-in-an-epoch", "1", "--quiet"]
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert process.poll() is None, "anvil ended"
            assert time.monotonic() < deadline, "anvil does not listen"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _odd(answer: dict[str, Any]) -> dict[str, Any]:
    """A receipt whose status is neither 0 nor 1."""
    if answer.get("result"):
        answer["result"]["status"] = "0x2"
    return answer
