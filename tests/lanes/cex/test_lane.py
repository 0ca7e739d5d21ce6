"""Registration and health."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from typing import Any, get_args

import pytest

from qtg_dagster.domain.contract import HealthState
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.executors.contract import SerializesByKey, submit_grace
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory, Wire
from qtg_dagster.lanes.cex import register, venues
from qtg_dagster.lanes.cex.venue import Identity, load_venue


def test_the_lane_registers_its_executors(make_inventory: Any) -> None:
    executors = ExecutorRegistry()
    lane = register(executors, make_inventory("http://127.0.0.1:1"))
    keys = [key for key, _ in executors.items()]
    assert keys == ["exec.cex.deposit_observe", "exec.cex.withdrawal_action", "exec.cex.withdrawal_observe"]
    assert submit_grace(executors.resolve("exec.cex.withdrawal_action")) == 7
    assert submit_grace(executors.resolve("exec.cex.deposit_observe")) == 0
    assert [fetcher.venue_key for fetcher in lane.balance_fetchers] == ["venue_a"]


def test_absence_as_proof_needs_a_witness(make_inventory: Any) -> None:
    with pytest.raises(ConfigurationError, match="absence_is_proof"):
        register(ExecutorRegistry(), make_inventory("http://127.0.0.1:1", absence_is_proof=True))


def test_absence_is_no_proof_where_the_venue_knows_no_id_of_ours(make_inventory: Any) -> None:
    class Witness:
        async def arrived(self, **_: Any) -> tuple[str, ...]:
            return ()

    inventory = make_inventory("http://127.0.0.1:1", wire="kraken", absence_is_proof=True)
    with pytest.raises(ConfigurationError, match="cannot be asked for our id"):
        register(ExecutorRegistry(), inventory, arrivals=Witness())


@pytest.mark.parametrize(("wire", "passphrase"), [("okx", None), ("kucoin", None), ("kraken", {"env": "P"})])
def test_a_key_has_the_parts_that_the_wires_keys_have(wire: str, passphrase: Any, make_inventory: Any) -> None:
    with pytest.raises(ValueError, match="api_passphrase: keys of"):
        make_inventory("http://127.0.0.1:1", wire=wire, api_passphrase=passphrase)


def test_every_adapter_is_a_wire_of_the_inventory_and_declares_itself(make_inventory: Any) -> None:
    wires = [module.name for module in pkgutil.iter_modules(venues.__path__)]
    assert {"binance", "kraken", "okx"} <= set(wires) <= set(get_args(Wire))
    for wire in wires:
        venue = load_venue(wire)
        assert venue.identity is Identity.SEARCHABLE or not venue.absence_can_prove
        assert venue.one_request_at_a_time == (wire == "kraken"), "nonces that must rise"
        assert venue.payload_format.startswith(f"{wire}.")
        assert venue.network_code(venue.network_code("ERC20")) == venue.network_code("ERC20")


def test_only_actions_that_could_be_mixed_up_wait_for_one_another(make_inventory: Any) -> None:
    """A service whose venues need no such key is not asked to name one."""
    executors = ExecutorRegistry()
    register(executors, make_inventory("http://127.0.0.1:1"))
    assert not isinstance(executors.resolve("exec.cex.withdrawal_action"), SerializesByKey)


def test_an_unknown_wire_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no adapter"):
        load_venue("nowhere")


def test_importing_and_registering_loads_no_heavy_library() -> None:
    programme = (
        "import sys; from qtg_dagster.lanes.cex import register;"
        "from qtg_dagster.executors.registry import ExecutorRegistry; from qtg_dagster.inventory import Inventory;"
        "register(ExecutorRegistry(), Inventory());"
        "print([name for name in ('ccxt', 'aiohttp', 'web3', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", programme], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_health_of_a_venue_that_answers(lane: Any) -> None:
    report = await lane.executor("withdrawal_action").health()
    assert report.health_state is HealthState.HEALTHY


async def test_maintenance_and_missing_permission_degrade(lane: Any, venue: Any) -> None:
    venue.answers["/venue_a/sapi/v1/system/status"] = {"status": 1, "msg": "upgrade"}
    venue.answers["/venue_a/sapi/v1/account/apiRestrictions"] = {"enableWithdrawals": False}
    report = await lane.executor("deposit_observe").health()
    assert report.health_state is HealthState.DEGRADED
    assert "upgrade" in report.detail
    assert "may not withdraw" in report.detail


async def test_a_venue_that_does_not_answer_is_down(lane: Any, venue: Any) -> None:
    venue.on("/venue_a/sapi/v1/account/apiRestrictions", no_bytes=True)
    report = await lane.executor("withdrawal_observe").health()
    assert report.health_state is HealthState.DOWN


async def test_a_missing_secret_is_down_with_its_place(lane: Any, venue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VENUE_A_SECRET")
    report = await lane.executor("withdrawal_action").health()
    assert report.health_state is HealthState.DOWN
    assert "VENUE_A_SECRET" in report.detail


async def test_no_venues_means_no_report() -> None:
    executors = ExecutorRegistry()
    register(executors, Inventory())
    assert await executors.resolve("exec.cex.withdrawal_action").health() is None
