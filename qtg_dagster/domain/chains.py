"""Names of chains, accounts and assets by CAIP-2, CAIP-10 and CAIP-19, and gas prices that know their chain."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qtg_dagster.domain.errors import InvalidInput

_CHAIN = re.compile(r"[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}")
_ADDRESS = re.compile(r"[-.%a-zA-Z0-9]{1,128}")


@dataclass(frozen=True, slots=True)
class ChainId:
    """A chain by its CAIP-2 name, e.g. `eip155:1`."""

    text: str

    def __post_init__(self) -> None:
        if not _CHAIN.fullmatch(self.text):
            raise InvalidInput("chain", f"{self.text!r} is not a CAIP-2 name", 'Give text like "eip155:1".')

    @property
    def namespace(self) -> str:
        return self.text.split(":", 1)[0]

    @property
    def reference(self) -> str:
        return self.text.split(":", 1)[1]

    @property
    def evm_id(self) -> int:
        """The EIP-155 number; raises `InvalidInput` for a chain that is not EVM."""
        if self.namespace != "eip155" or not self.reference.isdigit():
            raise InvalidInput("chain", f"{self.text} is not an EVM chain", "Give an eip155 chain.")
        return int(self.reference)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class AccountId:
    """An account on a chain by its CAIP-10 name, e.g. `eip155:1:0xab16...`."""

    chain: ChainId
    address: str

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise InvalidInput("account", f"{self.address!r} is not an address", "Give the chain's own address text.")

    @classmethod
    def parse(cls, text: str) -> AccountId:
        chain, _, address = text.rpartition(":")
        return cls(ChainId(chain), address)

    def __str__(self) -> str:
        return f"{self.chain}:{self.address}"


@dataclass(frozen=True, slots=True)
class GasPrice:
    """Wei per unit of gas on one chain; comparing or adding prices of two chains raises `TypeError`."""

    chain: ChainId
    wei: int

    def __post_init__(self) -> None:
        if self.wei < 0:
            raise InvalidInput("gas price", f"{self.wei} is negative", "Give wei per gas.")

    def __add__(self, other: GasPrice) -> GasPrice:
        self._same_chain(other)
        return GasPrice(self.chain, self.wei + other.wei)

    def __lt__(self, other: GasPrice) -> bool:
        self._same_chain(other)
        return self.wei < other.wei

    def scaled(self, percent: int) -> GasPrice:
        """`percent` of this price, rounded up: nodes compare replacement prices with `>=`."""
        return GasPrice(self.chain, -(-self.wei * percent // 100))

    def _same_chain(self, other: GasPrice) -> None:
        if self.chain != other.chain:
            raise TypeError(f"a gas price of {self.chain} means nothing on {other.chain}")


def evm_address(text: str, *, field: str = "address") -> str:
    """Lower-case 0x address of 20 bytes; raises `InvalidInput` naming `field` otherwise.

    A mixed-case address is accepted here as spelled; its EIP-55 checksum is verified where web3 is loaded.
    """
    if not isinstance(text, str) or not re.fullmatch(r"0x[0-9a-fA-F]{40}", text):
        raise InvalidInput(field, f"{text!r} is not an EVM address", "Give 0x and 40 hex digits.")
    return text.lower()
