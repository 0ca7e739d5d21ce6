"""The configuration file is private, and a wrong one is refused with the field's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import ExchangeConfig


def test_a_config_round_trips_through_a_private_file(
    make_config: Callable[..., ExchangeConfig], tmp_path: Path
) -> None:
    config, path = make_config(), tmp_path / "exchange.json"
    config.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert ExchangeConfig.load(path) == config
    assert "test-secret" not in repr(config)
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        ExchangeConfig.load(path)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"initial_balances": {"BTC": "1"}}, "initial_balances.BTC"),
        ({"initial_balances": {"USDC": "1.0000001"}}, "initial_balances.USDC"),
        ({"network": {"withdraw_step": "0.0000000000000000001"}}, "withdraw_step"),
        ({"network": {"withdraw_step": "0"}}, "withdraw_step"),
        ({"network": {"withdraw_min": "1e3"}}, "withdraw_min"),
        ({"network": {"deposit_address": "0x12"}}, "deposit_address"),
        ({"duplicate_order_ids": "maybe"}, "duplicate_order_ids"),
    ],
)
def test_a_bad_config_is_refused_with_the_field_and_without_secrets(
    make_config: Callable[..., ExchangeConfig], tmp_path: Path, fields: dict[str, Any], named: str
) -> None:
    path = tmp_path / "exchange.json"
    make_config().save(path)
    content = json.loads(path.read_text())
    venue = content["venues"]["venue_a"]
    for coin in venue["coins"].values():
        coin["networks"]["ETH"].update(fields.get("network", {}))
    venue.update({name: value for name, value in fields.items() if name != "network"})
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigurationError, match=named) as caught:
        ExchangeConfig.load(path)
    assert "test-secret" not in str(caught.value)
