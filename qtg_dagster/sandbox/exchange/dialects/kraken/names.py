"""Kraken's names: assets with a letter before them, and ways in and out called by coin and network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qtg_dagster.sandbox.exchange.config import NetworkConfig
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.venue import Venue

# Assets listed early have a class letter before their name; later ones do not.
_OLD_NAMES: Mapping[str, str] = {
    "XBT": "XXBT",
    "ETH": "XETH",
    "ETC": "XETC",
    "LTC": "XLTC",
    "XRP": "XXRP",
    "XLM": "XXLM",
    "XMR": "XXMR",
    "XDG": "XXDG",
    "USD": "ZUSD",
    "EUR": "ZEUR",
}


def asset_name(coin: str) -> str:
    """What answers call a coin."""
    return _OLD_NAMES.get(coin, coin)


def method_name(coin: str, network: str) -> str:
    """What the way of a coin over a network is called."""
    return f"{coin} ({network})"


class Names:
    """Coins and ways of one venue by what a client calls them; both of an asset's names are taken."""

    def __init__(self, venue: Venue) -> None:
        self._coins = venue.config.coins

    def coin(self, asset: str) -> str:
        """The coin of an asset; raises `Declined`."""
        for coin in self._coins:
            if asset in (coin, asset_name(coin)):
                return coin
        raise Declined(Reason.UNKNOWN_COIN)

    def ways(self, coin: str | None, method: str | None = None) -> Iterator[tuple[str, str, NetworkConfig]]:
        """Coin, network and its terms for every way that matches; None matches any."""
        for name, listed in self._coins.items():
            for key, network in listed.networks.items():
                if coin in (None, name) and method in (None, method_name(name, key)):
                    yield name, key, network
