"""A signer whose key lies in an encrypted keystore file and is opened in memory only, at the first signature."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.signers.guarded import Agreed, GuardedSigner
from qtg_dagster.executors.signers.journal import SignerJournal
from qtg_dagster.inventory import Inventory, LocalSignerEntry

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount


class LocalKeystoreSigner(GuardedSigner):
    """Holds its key itself; for the sandbox and for desks whose signer process runs on a machine of its own."""

    def __init__(self, key: str, entry: LocalSignerEntry, inventory: Inventory, journal: SignerJournal) -> None:
        super().__init__(key, entry, inventory, journal)
        self._entry = entry
        self._account: LocalAccount | None = None

    async def _sender(self) -> str:
        return str((await self._open()).address).lower()

    async def _sign(self, agreed: Agreed) -> str:
        signed = (await self._open()).sign_transaction(agreed.read.to_sign())
        return "0x" + bytes(signed.raw_transaction).hex()

    async def _observe(self) -> str:
        """The address that the keystore states; that keystore and passphrase are there. Opens no key."""
        address = await asyncio.to_thread(self._stated_address)
        self._entry.passphrase.read(f"signers.{self._key}.passphrase")
        return address

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
    """The signer for such an inventory entry; opens nothing yet."""
    return LocalKeystoreSigner(key, entry, inventory, journal)
