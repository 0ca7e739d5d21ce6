"""The sandbox's chain: anvil behind a gateway that makes it durable. `python -m qtg_dagster.sandbox.chain`.

Blocks come with transactions, and once a second for a while after one, so that confirmations and finality advance
without traffic; an idle chain makes one block a minute and hardly grows. State is saved every few seconds and when
the chain stops. After `kill -9` the saved state is loaded, the chain is first raised to where it stood, and then
every transaction of the journal is given to it again: the same bytes, so the same hashes, in blocks at least as high
as before. To everybody else that looks like a reorganisation, which they must stand anyway.
Only transactions are made durable: what anvil's own `anvil_*` methods set lives until the next kill.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import os
import signal
import socket
import sys
import time
from pathlib import Path

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.node_tools import anvil_binary
from qtg_dagster.sandbox.chain_gateway import Gateway, NodeGone
from qtg_dagster.sandbox.chain_journal import ChainJournal

CHAIN_ID = 31337
CHAIN = f"eip155:{CHAIN_ID}"
STATE_FILE = "state.json"
JOURNAL_FILE = "journal.jsonl"
_BUSY_BLOCKS = 15
_IDLE_SECONDS = 60.0
_SAVE_SECONDS = 5.0
_START_SECONDS = 20.0


class SandboxChain:
    """One anvil process, its journal and its gateway on a loopback port."""

    def __init__(self, folder: Path, port: int, anvil: Path, block_seconds: float = 1.0) -> None:
        self._folder = folder
        self._port = port
        self._anvil = anvil
        self._block_seconds = block_seconds
        self._saved_height = -1

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; raises `ConfigurationError` when anvil cannot run or dies."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        node_port = _free_port()
        node = await self._start_node(node_port)
        with ChainJournal(self._folder / JOURNAL_FILE) as journal:
            gateway = Gateway(f"http://127.0.0.1:{node_port}", journal)
            try:
                await self._serve(gateway, journal, node, stop)
            finally:
                await gateway.stop()
                with contextlib.suppress(ProcessLookupError):
                    node.kill()
                await node.wait()

    async def _serve(
        self, gateway: Gateway, journal: ChainJournal, node: asyncio.subprocess.Process, stop: asyncio.Event
    ) -> None:
        replay = ChainJournal.read(self._folder / JOURNAL_FILE)
        await gateway.connect()
        await self._wait_for_node(gateway, node)
        whole = await self._make_up(gateway, replay.raw_transactions, replay.height)
        await self._save(gateway)
        if whole:
            journal.restart(self._saved_height)
        await gateway.listen("127.0.0.1", self._port)
        works = [
            asyncio.create_task(work)
            for work in (self._mine(gateway, journal), self._save_often(gateway), node.wait(), stop.wait())
        ]
        done, rest = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for work in rest:
            work.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for work in done:
            work.result()
        if not stop.is_set():
            raise ConfigurationError(f"the sandbox chain: anvil ended by itself (exit code {node.returncode})")
        await gateway.close_door()
        await self._save(gateway)
        journal.restart(self._saved_height)

    async def _start_node(self, port: int) -> asyncio.subprocess.Process:
        arguments = [
            *("--host", "127.0.0.1", "--port", str(port), "--chain-id", str(CHAIN_ID)),
            *("--slots-in-an-epoch", "1", "--balance", "1000000", "--quiet"),
        ]
        state = self._folder / STATE_FILE
        if state.is_file():
            arguments += ["--load-state", str(state)]
        # A session of its own would outlive us; a Ctrl-C for us must not reach it before its state is saved.
        return await asyncio.create_subprocess_exec(
            str(self._anvil), *arguments, stdin=asyncio.subprocess.DEVNULL, preexec_fn=_die_with_parent
        )

    async def _wait_for_node(self, gateway: Gateway, node: asyncio.subprocess.Process) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while node.returncode is None and time.monotonic() < deadline:
            with contextlib.suppress(NodeGone):
                await gateway.call("eth_chainId")
                return
            await asyncio.sleep(0.02)
        raise ConfigurationError(
            f"the sandbox chain: {self._anvil} did not start; its words are above. "
            f"If {self._folder / STATE_FILE} is damaged, remove the folder for a new sandbox."
        )

    async def _make_up(self, gateway: Gateway, raw_transactions: tuple[str, ...], height: int) -> bool:
        """Bring the node to where the journal says; False while transactions of the journal still wait in its pool."""
        stands = int(await gateway.call("eth_blockNumber"), 16)
        missing = [raw for raw in raw_transactions if not await self._is_mined(gateway, raw)]
        if not missing and stands >= height:
            return True
        if stands < height:
            await gateway.call("anvil_mine", hex(height - stands))
        for raw in missing:
            # Refused now means that it, or what it replaced, is mined.
            with contextlib.suppress(ValueError):
                await gateway.call("eth_sendRawTransaction", raw)
        deadline = time.monotonic() + _START_SECONDS
        while int((await gateway.call("txpool_status"))["pending"], 16):  # mining is asynchronous
            if time.monotonic() > deadline:
                return False
            await gateway.call("evm_mine")
        return True

    @staticmethod
    async def _is_mined(gateway: Gateway, raw: str) -> bool:
        from eth_utils.crypto import keccak

        tx_hash = "0x" + keccak(hexstr=raw).hex()
        return await gateway.call("eth_getTransactionReceipt", tx_hash) is not None

    async def _mine(self, gateway: Gateway, journal: ChainJournal) -> None:
        left = _BUSY_BLOCKS
        while True:
            journal.record_height(int(await gateway.call("eth_blockNumber"), 16))
            if left:
                await asyncio.sleep(self._block_seconds)
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(gateway.busy.wait(), _IDLE_SECONDS)
            left = _BUSY_BLOCKS if gateway.busy.is_set() else max(0, left - 1)
            gateway.busy.clear()
            await gateway.call("evm_mine")

    async def _save_often(self, gateway: Gateway) -> None:
        wait = _SAVE_SECONDS
        while True:
            await asyncio.sleep(wait)
            started = time.monotonic()
            await self._save(gateway)
            # A long chain takes longer to save: never spend more than a twentieth of the time on it.
            wait = max(_SAVE_SECONDS, 20 * (time.monotonic() - started))

    async def _save(self, gateway: Gateway) -> None:
        height = int(await gateway.call("eth_blockNumber"), 16)
        if height == self._saved_height:
            return
        packed = await gateway.call("anvil_dumpState")
        await asyncio.to_thread(_write_durably, self._folder / STATE_FILE, packed)
        self._saved_height = height


def _write_durably(path: Path, packed: str) -> None:
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as stream:
        stream.write(gzip.decompress(bytes.fromhex(packed.removeprefix("0x"))))
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    os.setpgrp()
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


async def serve(folder: Path, port: int, block_seconds: float) -> None:
    """Run until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    anvil = await asyncio.to_thread(anvil_binary)
    await SandboxChain(folder, port, anvil, block_seconds).run(stop)


def main() -> int:
    """Run the chain in the foreground; 2 when it cannot."""
    parser = argparse.ArgumentParser(prog="qtg_dagster.sandbox.chain", description="The sandbox's chain.")
    parser.add_argument("--home", type=Path, required=True, help="folder that holds the chain's state")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--block-seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    try:
        asyncio.run(serve(arguments.home, arguments.port, arguments.block_seconds))
    except (ConfigurationError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - command line
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
