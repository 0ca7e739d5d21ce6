"""Keys and secrets of one life of the sandbox: files that only their owner can read, made once and then kept."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

KEYSTORE_ROUNDS = 10_000  # quick to open: these keys own play money


class Keyring:
    """One folder of secret files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def token(self, name: str) -> str:
        """A random secret under a name."""
        return self._keep(name, lambda: secrets.token_urlsafe(32))

    def private_key(self, name: str) -> str:
        """A random private key under a name, 0x hex."""
        return self._keep(name, lambda: "0x" + secrets.token_bytes(32).hex())

    def address(self, name: str) -> str:
        """The lower-case address of such a key."""
        from eth_account import Account

        return str(Account.from_key(self.private_key(name)).address).lower()

    def keystore(self, name: str, passphrase: str) -> str:
        """The lower-case address of an encrypted keystore under a name; its key is nowhere else."""

        def make() -> str:
            from eth_account import Account

            document = Account.encrypt(secrets.token_bytes(32), passphrase, kdf="pbkdf2", iterations=KEYSTORE_ROUNDS)
            return json.dumps(document)

        return "0x" + str(json.loads(self._keep(name, make))["address"]).lower().removeprefix("0x")

    def path(self, name: str) -> Path:
        return self.folder / name

    def _keep(self, name: str, make: Callable[[], str]) -> str:
        path = self.path(name)
        if not path.is_file():
            write_private(path, make())
        return path.read_text().strip()


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, with mode 0600."""
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(text + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)
