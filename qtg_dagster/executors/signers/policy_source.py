"""Where a signer's policy comes from: the inventory, or a signed file that is looked at before each signature."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.signers.policy_file import PolicyFile, read_bounded, signature_path, verify_policy
from qtg_dagster.inventory import PolicyFileEntry, SignerEntry, SignerPolicy


class PolicySource(Protocol):
    """Gives the policy that is in force."""

    async def current(self) -> SignerPolicy:
        """The policy as it is now; raises `SigningRefused` with the reason when there is none to go by."""
        ...


class InlinePolicy:
    """Written into the inventory."""

    def __init__(self, policy: SignerPolicy) -> None:
        self._policy = policy

    async def current(self) -> SignerPolicy:
        return self._policy


class SignedPolicy:
    """In a file that counts only while its signature is right. A changed file is in force at the next signature."""

    def __init__(self, key: str, entry: PolicyFileEntry) -> None:
        self._key = key
        self._entry = entry
        self._verified: tuple[bytes, bytes, PolicyFile] | None = None

    async def current(self) -> SignerPolicy:
        try:
            verified = await asyncio.to_thread(self._read)
        except ConfigurationError as error:
            raise self._refusal(str(error)) from None
        if verified.serial < self._entry.least_serial:
            raise self._refusal(f"serial {verified.serial} is older than least_serial {self._entry.least_serial}")
        if self._key not in verified.signers:
            raise self._refusal(f"it has no policy for {self._key}")
        return verified.signers[self._key]

    def _read(self) -> PolicyFile:
        file = Path(self._entry.file)
        content, signatures = read_bounded(file), read_bounded(self._entry.signature or signature_path(file))
        if self._verified is None or self._verified[:2] != (content, signatures):
            self._verified = (content, signatures, verify_policy(content, signatures, self._entry.public_key))
        return self._verified[2]

    def _refusal(self, reason: str) -> SigningRefused:
        return SigningRefused(f"signers.{self._key}.policy_file {self._entry.file}: {reason}; nothing is signed")


def policy_source(key: str, entry: SignerEntry) -> PolicySource:
    """The source that the entry names; reads nothing yet."""
    return InlinePolicy(entry.policy) if entry.policy_file is None else SignedPolicy(key, entry.policy_file)
