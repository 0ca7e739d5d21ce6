"""`qtg sandbox exchange`: several wires in one process, credentials in private files, the same again next time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.chain import ChainClient
from qtg_dagster.sandbox.exchange.dialect import known_wires
from qtg_dagster.sandbox.exchange.server import serving
from qtg_dagster.sandbox.exchange.standalone import Surroundings, prepare
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder

Started = tuple[subprocess.Popen[str], list[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Run the command, and read what it says until it listens."""
    running: list[subprocess.Popen[str]] = []

    def run(*arguments: str, last: str = "no chain") -> Started:
        command = [sys.executable, "-m", "qtg_dagster", "sandbox", "exchange", "--port", "0", *arguments]
        environment = {**os.environ, "QTG_HOME": str(tmp_path / "home")}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        running.append(process)
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith(last):
                return process, lines
        assert process.stderr is not None
        raise AssertionError(f"it ended: {lines} {process.stderr.read()}")

    yield run
    for process in running:
        process.kill()
        process.communicate()


def credentials(lines: list[str], venue: str) -> dict[str, Any]:
    (line,) = [line for line in lines if line.startswith(f"{venue}: ")]
    path = Path(line.partition(" credentials ")[2])
    assert path.stat().st_mode & 0o777 == 0o600
    found: dict[str, Any] = json.loads(path.read_text())
    assert line.startswith(f"{venue}: {found['base_url']} ")
    assert found["api_secret"] not in line
    return found


def test_all_wires_are_served_by_one_process_that_ends_in_good_order(start: Callable[..., Started]) -> None:
    process, lines = start()
    venues = {wire: credentials(lines, wire) for wire in known_wires()}
    times = {"binance": "/api/v3/time", "okx": "/api/v5/public/time", "kraken": "/0/public/Time"} | {
        "bitget": "/api/v2/public/time"
    }
    for wire, path in times.items():
        assert httpx.get(venues[wire]["base_url"] + path, trust_env=False).status_code == 200
    assert set(venues["kraken"]["address_book"]) == set(known_wires()) - {"kraken"}
    assert ("api_passphrase" in venues["okx"], "api_passphrase" in venues["binance"]) == (True, False)
    (control,) = [line for line in lines if line.startswith("control: ")]
    token = Path(control.partition(" token ")[2]).read_text().strip()
    url = control.split()[1] + "/health"
    assert httpx.get(url, headers={"authorization": f"Bearer {token}"}, trust_env=False).json()["paused"] == []
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_the_same_credentials_are_served_again_and_wires_are_chosen(start: Callable[..., Started]) -> None:
    process, lines = start("--wire", "okx", "--wire", "kraken", "--address", "0x" + "ab" * 20)
    first = credentials(lines, "kraken")
    assert not [line for line in lines if line.startswith("binance")]
    assert first["address_book"]["address1"] == "0x" + "ab" * 20
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    _, again = start("--wire", "kraken")
    second = credentials(again, "kraken")
    assert [first[name] == second[name] for name in ("api_key", "api_secret", "deposit_addresses")] == [True] * 3


def test_a_configuration_of_ones_own_is_served(start: Callable[..., Started], tmp_path: Path) -> None:
    config = prepare(tmp_path / "made", ["okx"], Surroundings())
    config.save(tmp_path / "exchange.json")
    _, lines = start("--config", str(tmp_path / "exchange.json"))
    assert credentials(lines, "okx")["api_key"] == config.venues["okx"].api_key


async def test_over_a_chain_money_moves_from_wire_to_wire(tmp_path: Path, chain: Any, eventually: Any) -> None:
    config = prepare(tmp_path, known_wires(), Surroundings(chain_url=chain.url))
    assert prepare(tmp_path, known_wires(), Surroundings(chain_url=chain.url)) == config
    assert [set(venue.coins) for venue in config.venues.values()] == [{"ETH"}] * len(known_wires())
    async with serving(config) as running:
        kraken, okx = running.exchange.venues["kraken"], running.exchange.venues["okx"]
        chain.fund(running.exchange.desks["kraken"].address)
        saved = {item.name: item for item in kraken.config.address_book}["okx"]
        kraken.withdraw(WithdrawalOrder("ETH", saved.address, "1.5", saved.network))

        async def credited() -> bool:
            return okx.balance("ETH").free.to_text() == "101.499"

        assert await eventually(credited)
        assert kraken.balance("ETH").free.to_text() == "98.5"


async def test_idle_venues_ask_their_chain_once_a_look_together(
    tmp_path: Path, chain: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = prepare(tmp_path, known_wires(), Surroundings(chain_url=chain.url))
    assert config.chain is not None
    seldom = config.model_copy(update={"chain": config.chain.model_copy(update={"poll_seconds": 60})})
    asked: list[list[str]] = []
    post = ChainClient._post

    async def counted(client: ChainClient, calls: Any) -> Any:
        asked.append([method for method, _ in calls])
        return await post(client, calls)

    async with serving(seldom) as running:

        async def scanned() -> bool:
            return running.exchange.ledger.meta("scan_tip") is not None

        await eventually(scanned)
        monkeypatch.setattr(ChainClient, "_post", counted)
        for _ in range(3):
            await running.exchange._watch()
            for desk in running.exchange.desks.values():
                await desk.step()
    assert asked == [["eth_blockNumber", "eth_getBlockByNumber"]] * 3


@pytest.mark.parametrize(
    ("wires", "around", "named"),
    [
        (["nonsense"], Surroundings(), "'nonsense' has no dialect"),
        (["okx"], Surroundings(chain_url="http://127.0.0.1:9"), "--chain-url"),
        (["kraken"], Surroundings(addresses=("0x12",)), "address"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    tmp_path: Path, wires: list[str], around: Surroundings, named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        prepare(tmp_path, wires, around)
