"""Bitget's names of chains: a chain's own coin is on ETH where its tokens are on ERC20."""

from __future__ import annotations

from collections.abc import Mapping

from qtg_dagster.sandbox.exchange.config import VenueConfig

_OWN: Mapping[tuple[str, str], str] = {("ETH", "ERC20"): "ETH", ("TRX", "TRC20"): "TRX"}


def chain_name(coin: str, network: str) -> str:
    """What answers call a network of a coin."""
    return _OWN.get((coin, network), network)


def network_named(config: VenueConfig, coin: str, chain: str) -> str | None:
    """The network that requests mean by this; they may spell it in small letters."""
    listed = config.coins.get(coin)
    names = {} if listed is None else {chain_name(coin, key).casefold(): key for key in listed.networks}
    return names.get(chain.casefold())
