"""What all signers share: the checks, their order, and that a signature is on record before it is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final

from qtg_dagster.domain.contract import HealthReport, HealthState, SignedPayload, SignRequest
from qtg_dagster.domain.errors import ConfigurationError, QtgError, SigningRefused
from qtg_dagster.domain.nonce_chain import FILL_FORMAT
from qtg_dagster.executors.signers.encoding import check_signed
from qtg_dagster.executors.signers.filling import check_fill, fill_role
from qtg_dagster.executors.signers.journal import SignerJournal
from qtg_dagster.executors.signers.policy import (
    check_agreement,
    check_approval,
    check_hashes,
    check_policy,
    daily_limit,
)
from qtg_dagster.executors.signers.policy_source import policy_source
from qtg_dagster.executors.signers.reading import ReadTransaction, read_payload
from qtg_dagster.inventory import Inventory, SignerEntry, SignerPolicy


class SignerUnavailable(QtgError):
    """The party that holds the key cannot be asked at the moment; asking again later is safe."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """A request that has passed every check and is on record: all that is left is the key operation."""

    request: SignRequest
    read: ReadTransaction
    sender: str


class GuardedSigner(ABC):
    """Reads what it is asked to sign, compares it with intent and policy, remembers it, and only then uses its key.

    A kind of signer brings three things: which address its key has, the key operation, and how its health is seen.
    """

    def __init__(self, key: str, entry: SignerEntry, inventory: Inventory, journal: SignerJournal) -> None:
        self._key = key
        self._policy = policy_source(key, entry)
        self._inventory = inventory
        self._journal = journal

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._key})"

    @property
    def signer_key(self) -> str:
        return self._key

    @final
    async def sign(self, request: SignRequest) -> SignedPayload:
        """Sign; raises `SigningRefused` with the first thing that does not agree, and then has signed nothing.

        What the key's holder answers is checked too: other bytes than the transaction asked for are refused.
        """
        check_hashes(request)
        check_approval(request, datetime.now(UTC))
        read = read_payload(request.payload)
        policy = await self._policy.current()
        sender = await self._sender()
        if request.payload_format == FILL_FORMAT:
            await self._agree_to_fill(read, request, policy, sender)
        else:
            await self._agree_to_transfer(read, request, policy, sender)
        signed = await self._sign(Agreed(request, read, sender))
        tx_hash = check_signed(signed, read, sender)
        return SignedPayload(
            payload_hash=request.payload_hash,
            signed_payload=signed,
            signer_key=self._key,
            signer_address=sender,
            provider_refs={"tx_hash": tx_hash},
        )

    async def _agree_to_transfer(
        self, read: ReadTransaction, request: SignRequest, policy: SignerPolicy, sender: str
    ) -> None:
        check_agreement(read, request, self._key, sender, self._inventory)
        check_policy(read, request.signing_intent, policy, self._inventory)
        await self._keep_daily_limit(read, request, policy, sender)
        await self._journal.record(
            chain=read.chain,
            sender=sender,
            nonce=read.nonce,
            request_node_id=request.request_node_id,
            role=f"{request.signing_intent.action}#{read.attempt_no}",
            effect_hash=read.effect_hash(sender),
        )

    async def _agree_to_fill(
        self, read: ReadTransaction, request: SignRequest, policy: SignerPolicy, sender: str
    ) -> None:
        check_fill(read, request, self._key, sender, policy, self._inventory)
        await self._journal.record_fill(
            chain=read.chain,
            sender=sender,
            nonce=read.nonce,
            request_node_id=request.request_node_id,
            role=fill_role(read.nonce),
            effect_hash=read.effect_hash(sender),
        )

    async def _keep_daily_limit(
        self, read: ReadTransaction, request: SignRequest, policy: SignerPolicy, sender: str
    ) -> None:
        """The signer's own count, whatever those who ask have counted."""
        key = request.signing_intent.asset
        if key not in policy.daily:
            return
        limit = daily_limit(policy, key, self._inventory)
        await self._journal.spend(
            chain=read.chain,
            sender=sender,
            nonce=read.nonce,
            asset=key,
            units=read.units,
            daily_units=limit.base_units,
            at_most=str(limit),
        )

    @final
    async def health(self) -> HealthReport | None:
        """DOWN with the reason, or HEALTHY; with the address its key was seen to have, where it could be seen."""
        address = None
        try:
            address = await self._observe()
            await self._policy.current()
        except (ConfigurationError, SignerUnavailable, SigningRefused) as error:
            return HealthReport(health_state=HealthState.DOWN, detail=str(error), signer_address=address)
        detail = self._strangers(address)
        state = HealthState.DOWN if detail else HealthState.HEALTHY
        return HealthReport(health_state=state, detail=detail, signer_address=address)

    async def close(self) -> None:  # noqa: B027 - most kinds hold nothing open
        """Close what is open."""

    def _strangers(self, address: str) -> str:
        ours = {name: account for name, account in self._inventory.accounts.items() if account.signer == self._key}
        strangers = [name for name, account in ours.items() if account.address != address]
        if not strangers:
            return ""
        return f"accounts {', '.join(strangers)} have another address than the signer's key ({address})"

    @abstractmethod
    async def _sender(self) -> str:
        """The key's lower-case 0x address. Raises `ConfigurationError`, `SignerUnavailable` or `SigningRefused`."""

    @abstractmethod
    async def _sign(self, agreed: Agreed) -> str:
        """The key operation: the signed transaction as 0x hex, whoever makes it. Raises as `_sender` does."""

    @abstractmethod
    async def _observe(self) -> str:
        """The address as seen now, by a look that signs nothing. Raises as `_sender` does."""
