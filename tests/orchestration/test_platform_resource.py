"""What Dagster's runs work with is the whole inventory, whatever sections it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from qtg_dagster.composition import Platform
from qtg_dagster.inventory import Inventory
from tests.orchestration.shapes import Ask

INVENTORY = """
assets: {USDC: {symbol: USDC, decimals: 6}}
chains: {"eip155:31337": {name: Local, rpc_urls: ["http://127.0.0.1:1"], native_asset: USDC}}
accounts:
  treasury: {chain: "eip155:31337", address: "0x1111111111111111111111111111111111111111"}
  vault: {chain: "eip155:31337", address: "0x2222222222222222222222222222222222222222"}
executors:
  exec.other.send: {url: "http://127.0.0.1:9", secret: {env: NO_SUCH_SECRET}}
routes:
  way: {from: treasury, to: vault, assets: [USDC], template_key: by_hand}
"""


@pytest.fixture(autouse=True)
def _inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(INVENTORY)
    monkeypatch.setenv("MG_INVENTORY_FILE", str(file))
    monkeypatch.setenv("NO_SUCH_SECRET", "x" * 40)


def test_a_run_has_every_section_of_the_inventory_and_the_executors_it_names(ask: Ask) -> None:
    async def look(platform: Platform) -> tuple[Inventory, Inventory, bool]:
        return platform.engine.inventory, platform.settings.inventory, "exec.other.send" in platform.executors

    used, written, registered = ask(look)
    assert registered
    for section in Inventory.model_fields:
        assert getattr(used, section) == getattr(written, section), section
