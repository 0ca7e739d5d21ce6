"""A signer whose key lies in an encrypted keystore file and is opened in memory only, at the first signature."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtg_dagster.domain.contract import HealthReport, HealthState, SignedPayload, SignRequest
from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.signers.journal import SignerJournal
from qtg_dagster.executors.signers.policy import check_agreement, check_hashes, check_policy
from qtg_dagster.executors.signers.reading import read_payload
from qtg_dagster.inventory import Inventory, LocalSignerEntry

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount


class LocalKeystoreSigner:
    """Reads what it is asked to sign, compares it with intent and policy, remembers it, and only then signs."""

    def __init__(self, key: str, entry: LocalSignerEntry, inventory: Inventory, journal: SignerJournal) -> None:
        self._key = key
        self._entry = entry
        self._inventory = inventory
        self._journal = journal
        self._account: LocalAccount | None = None

    def __repr__(self) -> str:
        return f"LocalKeystoreSigner({self._key})"

    @property
    def signer_key(self) -> str:
        return self._key

    async def sign(self, request: SignRequest) -> SignedPayload:
        """Sign; raises `SigningRefused` with the first thing that does not agree, and then has signed nothing."""
        check_hashes(request)
        read = read_payload(request.payload)
        account = await self._open()
        sender = str(account.address).lower()
        check_agreement(read, request, self._key, sender, self._inventory)
        check_policy(read, request.signing_intent, self._entry.policy, self._inventory)
        await self._journal.record(
            chain=read.chain,
            sender=sender,
            nonce=read.nonce,
            request_node_id=request.request_node_id,
            role=f"{request.signing_intent.action}#{read.attempt_no}",
            effect_hash=read.effect_hash(sender),
        )
        signed = account.sign_transaction(read.to_sign())
        return SignedPayload(
            payload_hash=request.payload_hash,
            signed_payload="0x" + bytes(signed.raw_transaction).hex(),
            signer_key=self._key,
            signer_address=sender,
            provider_refs={"tx_hash": "0x" + bytes(signed.hash).hex()},
        )

    async def health(self) -> HealthReport | None:
        """Whether keystore and passphrase are there and the accounts name the keystore's address."""
        try:
            address = await asyncio.to_thread(self._stated_address)
            self._entry.passphrase.read(f"signers.{self._key}.passphrase")
        except ConfigurationError as error:
            return HealthReport(health_state=HealthState.DOWN, detail=str(error))
        strangers = [
            name
            for name, account in self._inventory.accounts.items()
            if account.signer == self._key and account.address != address
        ]
        if strangers:
            detail = f"accounts {', '.join(strangers)} have another address than the keystore ({address})"
            return HealthReport(health_state=HealthState.DOWN, detail=detail, signer_address=address)
        return HealthReport(health_state=HealthState.HEALTHY, signer_address=address)

    def _stated_address(self) -> str:
        stated = str(self._keystore().get("address", "")).lower().removeprefix("0x")
        return "0x" + stated

    def _keystore(self) -> dict[str, Any]:
        path = Path(self._entry.keystore)
        where = f"signers.{self._key}.keystore: {path}"
        try:
            keystore = json.loads(path.read_text())
        except (OSError, ValueError):
            raise ConfigurationError(f"{where} is not a readable keystore") from None
        if not isinstance(keystore, dict) or keystore.get("version") != 3:
            raise ConfigurationError(f"{where} is not a Web3 secret storage of version 3")
        return keystore

    async def _open(self) -> LocalAccount:
        if self._account is None:
            # Opening a keystore is slow on purpose: not in the event loop.
            self._account = await asyncio.to_thread(self._decrypt)
        return self._account

    def _decrypt(self) -> LocalAccount:
        from eth_account import Account

        keystore = self._keystore()
        passphrase = self._entry.passphrase.read(f"signers.{self._key}.passphrase")
        try:
            account: LocalAccount = Account.from_key(Account.decrypt(keystore, passphrase.expose()))
        except (ValueError, TypeError, KeyError, NotImplementedError):
            # Whatever the library says, it may hold parts of what it was given.
            raise SigningRefused(f"signers.{self._key}: the passphrase does not open the keystore") from None
        return account


def build_signer(
    key: str, entry: LocalSignerEntry, inventory: Inventory, journal: SignerJournal
) -> LocalKeystoreSigner:
    """The signer for an inventory entry; opens nothing yet."""
    return LocalKeystoreSigner(key, entry, inventory, journal)
