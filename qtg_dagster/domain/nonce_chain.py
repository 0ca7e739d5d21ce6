"""What filling a nonce needs of a chain; a lane brings it, so that who decides knows of no endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from qtg_dagster.domain.errors import QtgError
from qtg_dagster.domain.nonces import ChainView, UsedBy

#: The one thing a signer signs beside what it has signed under a nonce; see `executors/signers/filling.py`.
FILL_ACTION = "evm_nonce_fill"
FILL_FORMAT = "evm.nonce_fill.v1"


@dataclass(frozen=True, slots=True)
class FeesOffered:
    """What a transaction offers, in wei per unit of gas."""

    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True)
class SignedBefore:
    """What was signed under a nonce already, as far as it is stored: its bytes are not needed, its price is."""

    tx_hash: str
    fees: FeesOffered


@dataclass(frozen=True, slots=True)
class FillOffer:
    """An unsigned filler: what would be signed, and what it can cost at most."""

    payload: str
    payload_hash: str
    fees: FeesOffered
    gas: int
    most_cost: str  # in the native coin, with its symbol
    native_asset: str


@dataclass(frozen=True, slots=True)
class Handover:
    """What a node answered when it was given bytes."""

    verdict: str
    said: str
    outbid: bool = False  # another transaction under the nonce offers more, or a block takes more than this offers


@dataclass(frozen=True, slots=True)
class Use:
    """The transaction that a final block has under a nonce, and whose it is."""

    tx_hash: str
    used_by: UsedBy
    evidence: dict[str, Any] = field(default_factory=dict)


class LookFailed(QtgError):
    """A chain could not be asked: nothing follows from that. Raised by `NonceChain` and by nobody else."""


class NonceChain(Protocol):
    """One lane's chains, as far as nonces go. Every method may raise `LookFailed`."""

    async def view(self, chain: str, sender: str, nonce: int, ours: Sequence[str]) -> ChainView:
        """What all endpoints say; `ours` are hashes of transactions signed under the nonce."""
        ...

    async def offer(
        self, chain: str, sender: str, nonce: int, *, node_id: str, version: int, over: Sequence[FeesOffered]
    ) -> FillOffer:
        """A filler that replaces whatever offers the fees in `over`.

        Raises `Conflict` when that is over the chain's fee ceiling, or over what the sender has.
        """
        ...

    async def hand_over(self, chain: str, raw: str, tx_hash: str, fees: FeesOffered) -> Handover:
        """Give stored bytes to a node, once. A lost answer is an answer too: the bytes may be given again."""
        ...

    async def use(
        self,
        chain: str,
        sender: str,
        nonce: int,
        *,
        fillers: Sequence[str],
        ours: Sequence[str],
        effects: Sequence[str],
    ) -> Use | None:
        """Who used the nonce in a final block; None while that is not settled.

        `effects` are hashes of the effects that signers have on record under it, which tell our own transaction
        also when its bytes were never stored.
        """
        ...
