"""What is wrong in an inventory is named, and what stands in it is not shown."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.inventory import Inventory
from qtg_dagster.settings import load_settings

HUSH = "hush-hush-4711"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            f"venues: {{a: {{wire: binance, api_key: {HUSH}, api_secret: {{env: S}}, assets: {{}}, networks: {{}}}}}}",
            "venues.a.api_key",
        ),
        (f"chains: {{'eip155:1': {{rpc_urls: ['https://rpc.example/v2/{HUSH}'], native_asset: ETH}}}}", "name"),
        (f"chains: {{'eip155:1': {{name: x, rpc_urls: ['https://r/{HUSH}'], native_asset: ETH}}}}", "native_asset"),
        (f"venues: {{a: [{HUSH}", "line 1"),
    ],
)
def test_a_wrong_inventory_is_named_without_what_stands_in_it(text: str, named: str, tmp_path: Path) -> None:
    """A key pasted where only its whereabouts belong must not end up in a log."""
    file = tmp_path / "inventory.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=named) as refusal:
        Inventory.load(file)
    assert HUSH not in "".join(traceback.format_exception(refusal.value))


def test_an_inventory_that_is_changed_is_read_anew_and_else_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text("assets: {}")
    monkeypatch.setenv("MG_INVENTORY_FILE", str(file))
    settings = load_settings()
    assert load_settings() is settings
    assert settings.inventory is settings.inventory
    file.write_text("assets: {USDC: {symbol: USDC, decimals: 6}}")
    assert sorted(settings.inventory.assets) == ["USDC"]
    monkeypatch.setenv("MG_NETWORK_CLASS", "testnet")
    assert load_settings().network_class == "testnet"
