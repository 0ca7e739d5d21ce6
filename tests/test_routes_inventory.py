"""Routes are held to the rest of the inventory when it is read, and endpoints are named as people name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from qtg_dagster.domain.errors import ConfigurationError, InvalidInput
from qtg_dagster.inventory import Inventory

VENUE = {
    "wire": "binance",
    "api_key": {"env": "K"},
    "api_secret": {"env": "S"},
    "assets": {"USDC": "USDC"},
    "networks": {"eip155:1": "ETH"},
    "deposit_addresses": {"eip155:1": "0x" + "33" * 20},
}
WAY = {"from": "binance", "to": "treasury", "assets": ["USDC"], "template_key": "home"}


def document(**routes: dict[str, Any]) -> dict[str, Any]:
    return {
        "assets": {"USDC": {"symbol": "USDC", "decimals": 6}, "ETH": {"symbol": "ETH", "decimals": 18}},
        "chains": {"eip155:1": {"name": "Ethereum", "rpc_urls": ["https://rpc.example"], "native_asset": "ETH"}},
        "venues": {"binance": VENUE, "twin": VENUE},
        "accounts": {
            "treasury": {"chain": "eip155:1", "address": "0x" + "11" * 20},
            "twin": {"chain": "eip155:1", "address": "0x" + "22" * 20},
        },
        "routes": routes,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("binance", "venue:binance"),
        ("binance.main", "venue:binance"),
        ("venue:binance", "venue:binance"),
        (" treasury ", "account:treasury"),
        ("account:twin", "account:twin"),
        ("venue:twin.main", "venue:twin"),
    ],
)
def test_an_endpoint_is_named_as_people_name_it(text: str, said: str) -> None:
    assert str(Inventory.model_validate(document()).endpoint(text, field="source")) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kraken", "'kraken' is no venue and no account"),
        ("binance.other", "is no venue"),
        ("account:binance", "is no venue"),
        ("chain:treasury", "is no venue"),
        (":treasury", "a venue and an account have the name|is no venue"),
        ("", "is no venue"),
        ("twin", "a venue and an account have the name"),
    ],
)
def test_what_names_none_or_two_is_refused_with_those_there_are(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        Inventory.model_validate(document()).endpoint(text, field="source")
    assert refused.value.field == "source"
    assert "venue:binance, venue:twin, account:treasury, account:twin" in refused.value.fix


@pytest.mark.parametrize(
    ("routes", "said"),
    [
        ({"way": {**WAY, "from": "kraken"}}, r"routes\.way\.from: 'kraken'"),
        ({"way": {**WAY, "to": "binance"}}, r"routes\.way\.to: venue:binance is where it begins"),
        ({"way": {**WAY, "assets": ["DOGE"]}}, r"routes\.way\.assets: 'DOGE' is not in the inventory"),
        ({"way": {**WAY, "assets": []}}, r"routes\.way\.assets"),
        ({"way": {**WAY, "bindings": {"desk": "signer.local.x"}}}, r"routes\.way\.bindings\.desk: 'signer\.local\.x'"),
        ({"way": {**WAY, "approval_rounds": 0}}, r"routes\.way\.approval_rounds"),
        ({"way": {**WAY, "template": "x"}}, r"routes\.way\.template"),
        ({"way": WAY, "way2": {**WAY, "from": "binance.main"}}, r"routes\.way2: route way already carries USDC there"),
    ],
)
def test_a_route_that_does_not_hold_is_named_when_the_file_is_read(
    routes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(yaml.safe_dump(document(**routes)))
    with pytest.raises(ConfigurationError, match=said):
        Inventory.load(file)


def test_a_route_is_found_by_its_ends_and_asset() -> None:
    inventory = Inventory.model_validate(document(way=WAY, back={**WAY, "from": "treasury", "to": "binance"}))
    here, there = inventory.endpoint("treasury", field="x"), inventory.endpoint("binance", field="x")
    assert inventory.route(there, here, "USDC")[0] == "way"
    assert inventory.route(here, there, "USDC")[0] == "back"
    with pytest.raises(InvalidInput, match="no route carries ETH"):
        inventory.route(here, there, "ETH")
