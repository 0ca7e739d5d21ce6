"""The stand-in exchange's configuration: one JSON file that holds secrets, so mode 0600."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.domain.chains import evm_address
from qtg_dagster.domain.errors import ConfigurationError, InvalidInput
from qtg_dagster.domain.plans import Frozen


class NetworkConfig(Frozen):
    """One coin on one network. Amounts are plain decimals in the coin's unit."""

    contract: str | None = Field(default=None, description="token contract; null = the chain's native coin")
    decimals: int | None = Field(default=None, ge=0, le=36, description="on the chain; null = the coin's")
    withdraw_fee: str = "0"
    withdraw_min: str = "0"
    withdraw_max: str = "1000000000"
    withdraw_step: str | None = Field(default=None, description="null = one unit of the chain's decimals")
    confirmations: int = Field(default=1, ge=1, description="blocks until a deposit is credited")
    unlock_confirmations: int = Field(default=0, ge=0, description="blocks until it may be withdrawn; 0 = at once")
    deposit_address: str
    is_default: bool = True

    @field_validator("contract", "deposit_address")
    @classmethod
    def _lower_case(cls, address: str | None) -> str | None:
        return None if address is None else _address(address)


class CoinConfig(Frozen):
    """A coin the venue lists; `decimals` is the precision of the venue's books."""

    name: str = ""
    decimals: int = Field(ge=0, le=36)
    networks: dict[str, NetworkConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _books_hold_every_chain_unit(self) -> Self:
        for key, network in self.networks.items():
            if (network.decimals or 0) > self.decimals:
                raise ValueError(f"networks.{key}.decimals: the books have only {self.decimals} decimals")
        return self

    def chain_decimals(self, network: str) -> int:
        """Decimals of the coin on the network's chain."""
        own = self.networks[network].decimals
        return self.decimals if own is None else own

    def default_network(self) -> str:
        """The network a withdrawal without one goes to."""
        return next((key for key, item in self.networks.items() if item.is_default), next(iter(self.networks)))


class SavedAddress(Frozen):
    """An entry of the customer's address book at the venue."""

    name: str = Field(min_length=1, description="on some wires a withdrawal names nothing but this")
    coin: str
    network: str
    address: str
    verified: bool = True

    @field_validator("address")
    @classmethod
    def _lower_case(cls, address: str) -> str:
        return _address(address)


class VenueConfig(Frozen):
    """One venue: the wire it speaks, its customer's key pair, its coins, the wallet that it pays from."""

    wire: str = Field(default="binance", description="a module of sandbox/exchange/dialects")
    api_key: str = Field(min_length=8)
    api_secret: SecretStr
    api_passphrase: SecretStr | None = Field(default=None, description="for wires whose keys have one")
    hot_wallet_key_file: Path = Field(description="hex private key, mode 0600; must differ between venues")
    coins: dict[str, CoinConfig] = Field(min_length=1)
    initial_balances: dict[str, str] = Field(default_factory=dict)
    address_whitelist: tuple[str, ...] | None = Field(default=None, description="null = any address")
    address_book: tuple[SavedAddress, ...] = ()
    duplicate_order_ids: Literal["accept", "return_first", "refuse"] | None = Field(
        default=None, description="what becomes of a client's own id that was used before; null = as the wire promises"
    )
    payout_delay_seconds: float = Field(default=0, ge=0, description="time a withdrawal awaits approval")

    @field_validator("address_whitelist")
    @classmethod
    def _addresses(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if value is None else tuple(_address(item) for item in value)

    @model_validator(mode="after")
    def _saved_addresses_lead_somewhere(self) -> Self:
        for number, saved in enumerate(self.address_book):
            if saved.coin not in self.coins or saved.network not in self.coins[saved.coin].networks:
                raise ValueError(f"address_book.{number}: the venue lists no {saved.coin} on {saved.network}")
        return self

    @model_validator(mode="after")
    def _amounts_parse(self) -> Self:
        for coin, text in self.initial_balances.items():
            if coin not in self.coins:
                raise ValueError(f"initial_balances.{coin}: not among the venue's coins")
            Amount.parse(self.asset(coin), text, field=f"initial_balances.{coin}")
        for coin, item in self.coins.items():
            for key, network in item.networks.items():
                self._network_parses(coin, f"coins.{coin}.networks.{key}", network, item.chain_decimals(key))
        return self

    def _network_parses(self, coin: str, place: str, network: NetworkConfig, chain_decimals: int) -> None:
        on_chain = Asset(coin, chain_decimals)
        for name in ("withdraw_min", "withdraw_max"):
            Amount.parse(self.asset(coin), getattr(network, name), field=f"{place}.{name}")
        for name in ("withdraw_fee", "withdraw_step"):
            text = getattr(network, name)
            if text is not None:
                Amount.parse(on_chain, text, field=f"{place}.{name}")
        if network.withdraw_step is not None and not Amount.parse(on_chain, network.withdraw_step).base_units:
            raise ValueError(f"{place}.withdraw_step: must be above zero, or null")

    def allows(self, address: str) -> bool:
        """Whether withdrawals to the address are allowed: any, unless the customer keeps a list of addresses."""
        if self.address_whitelist is None and not self.address_book:
            return True
        saved = {item.address for item in self.address_book if item.verified}
        return address.lower() in saved.union(self.address_whitelist or ())

    def asset(self, coin: str) -> Asset:
        """The coin as the books count it."""
        return Asset(coin, self.coins[coin].decimals)

    def amount(self, coin: str, text: str) -> Amount:
        """A configured decimal as an amount of the books."""
        return Amount.parse(self.asset(coin), text)

    def step_text(self, coin: str, network: str) -> str:
        """The withdrawal step of the coin on the network, a plain decimal."""
        own = self.coins[coin].networks[network].withdraw_step
        return own if own is not None else Amount(Asset(coin, self.coins[coin].chain_decimals(network)), 1).to_text()


class ChainConfig(Frozen):
    """The chain all venues pay out on and watch for deposits."""

    rpc_url: str
    chain_id: int = Field(ge=1)
    poll_seconds: float = Field(default=0.25, gt=0, le=60)
    payout_confirmations: int = Field(default=1, ge=1)
    start_block: int = Field(default=0, ge=0, description="first block a new ledger scans for deposits")


class ExchangeConfig(Frozen):
    """The whole stand-in. `epoch` names the chain's life: a ledger of another epoch is refused."""

    ledger: Path
    epoch: str | None = None
    control_token: SecretStr
    chain: ChainConfig | None = Field(default=None, description="null = withdrawals are held and never paid out")
    venues: dict[str, VenueConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _nothing_shared(self) -> Self:
        seen: dict[object, str] = {}
        for key, venue in self.venues.items():
            addresses = {net.deposit_address for coin in venue.coins.values() for net in coin.networks.values()}
            for item in (venue.api_key, venue.hot_wallet_key_file, *addresses):
                if item in seen:
                    raise ValueError(f"venues.{key}: shares a key, hot wallet or deposit address with {seen[item]}")
                seen[item] = key
        return self

    @classmethod
    def load(cls, path: Path) -> ExchangeConfig:
        """Read the file; raises `ConfigurationError` when it is missing, wrong, or readable by others."""
        if not path.is_file():
            raise ConfigurationError(f"exchange config: {path} is not a file")
        private_file(path, "exchange config")
        try:
            return cls.model_validate_json(path.read_text())
        except (ValidationError, InvalidInput) as error:
            raise ConfigurationError(f"exchange config: {path}: {_problems(error)}") from None

    def save(self, path: Path) -> None:
        """Write the file atomically with mode 0600."""
        fresh = path.with_name(path.name + ".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(self._exposed())
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)

    def _exposed(self) -> str:
        content = self.model_dump(mode="json")
        content["control_token"] = self.control_token.get_secret_value()
        for key, venue in self.venues.items():
            content["venues"][key]["api_secret"] = venue.api_secret.get_secret_value()
            if venue.api_passphrase is not None:
                content["venues"][key]["api_passphrase"] = venue.api_passphrase.get_secret_value()
        return json.dumps(content, indent=2) + "\n"


def _address(text: str) -> str:
    try:
        return evm_address(text)
    except InvalidInput as error:
        raise ValueError(str(error)) from None  # so that pydantic says where


def _problems(error: ValidationError | InvalidInput) -> str:
    if isinstance(error, InvalidInput):
        return str(error)
    return "; ".join(f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors())


def private_file(path: Path, what: str) -> None:
    """Raise `ConfigurationError` when others may read the file."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigurationError(f"{what}: {path} is readable by others; run `chmod 600 {path}`")
