"""From a signer's entry in the inventory to the signer."""

from __future__ import annotations

from typing import assert_never

from qtg_dagster.executors.signers.guarded import GuardedSigner
from qtg_dagster.executors.signers.journal import SignerJournal
from qtg_dagster.inventory import (
    AnySignerEntry,
    AwsKmsSignerEntry,
    Inventory,
    LocalSignerEntry,
    RemoteSignerEntry,
    Web3SignerEntry,
)


def build_signer(key: str, entry: AnySignerEntry, inventory: Inventory, journal: SignerJournal) -> GuardedSigner:
    """The signer for an inventory entry of any kind; opens and asks nothing yet.

    A kind's module is imported only for an entry of that kind: every run of Dagster imports this one.
    """
    match entry:
        case LocalSignerEntry():
            from qtg_dagster.executors.signers.local import LocalKeystoreSigner

            return LocalKeystoreSigner(key, entry, inventory, journal)
        case AwsKmsSignerEntry():
            from qtg_dagster.executors.signers.aws_kms import AwsKmsSigner

            return AwsKmsSigner(key, entry, inventory, journal)
        case RemoteSignerEntry():
            from qtg_dagster.executors.signers.remote import RemoteSigner

            return RemoteSigner(key, entry, inventory, journal)
        case Web3SignerEntry():
            from qtg_dagster.executors.signers.web3signer import Web3Signer

            return Web3Signer(key, entry, inventory, journal)
        case _:
            assert_never(entry)
