"""A node's config in the lane's own terms: chain, account, asset, amount, destination, all checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.domain.chains import evm_address
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.inventory import Inventory


@dataclass(frozen=True, slots=True)
class AssetOnChain:
    """An asset where it lives: `token` is the contract, None for the native coin."""

    key: str
    asset: Asset
    token: str | None


@dataclass(frozen=True, slots=True)
class TransferTerms:
    """What one transfer moves, from whom, to whom."""

    chain: str
    account: str
    sender: str
    asset: AssetOnChain
    amount: Amount
    destination: str

    @classmethod
    def read(cls, config: Mapping[str, Any], inventory: Inventory) -> TransferTerms:
        """Raises `InvalidInput` or `NotFound` naming the field."""
        chain = text(config, "chain")
        account = text(config, "account")
        asset = asset_on_chain(inventory, chain, text(config, "asset"))
        amount = Amount.parse(asset.asset, text(config, "amount"), field="config.amount")
        if amount.base_units <= 0:
            raise InvalidInput("config.amount", f"{amount} is not positive", "Give an amount above zero.")
        return cls(
            chain=chain,
            account=account,
            sender=account_on_chain(inventory, chain, account),
            asset=asset,
            amount=amount,
            destination=checked_address(text(config, "destination"), field="config.destination"),
        )


def text(config: Mapping[str, Any], name: str) -> str:
    """A config value that must be there."""
    value = config.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"config.{name}", f"{value!r} is not text", "Give it in the template.")
    return value


def asset_on_chain(inventory: Inventory, chain: str, key: str) -> AssetOnChain:
    """Raises `InvalidInput` when the inventory does not have this asset on this chain."""
    entry = inventory.chain(chain)
    asset = inventory.asset(key, field="config.asset")
    if key == entry.native_asset:
        return AssetOnChain(key, asset, None)
    if key not in entry.tokens:
        known = ", ".join((entry.native_asset, *sorted(entry.tokens)))
        raise InvalidInput("config.asset", f"{key} is not on {chain}", f"Use one of {known}.")
    return AssetOnChain(key, asset, entry.tokens[key])


def account_on_chain(inventory: Inventory, chain: str, key: str) -> str:
    """The lower-case address of one of our accounts; raises `InvalidInput` when it is on another chain."""
    account = inventory.account(key)
    if account.chain != chain:
        raise InvalidInput(
            "config.account", f"{key} is on {account.chain}, not {chain}", "Use an account of the chain."
        )
    return account.address


def checked_address(address: str, *, field: str) -> str:
    """Lower-case address; a mixed-case spelling must be a valid EIP-55 checksum. The zero address is refused."""
    plain = evm_address(address, field=field)
    if int(plain, 16) == 0:
        raise InvalidInput(field, "the zero address burns what it is sent", "Give a real recipient.")
    if address not in (plain, "0x" + address[2:].upper()):
        from eth_utils.address import is_checksum_address

        if not is_checksum_address(address):
            raise InvalidInput(field, f"{address} fails its EIP-55 checksum", "Copy the address again from its source.")
    return plain
