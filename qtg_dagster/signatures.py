"""Detached ed25519 signatures over files and documents, each bound to what it is for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qtg_dagster.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_KEY = re.compile(r"[0-9a-f]{64}")
SIGNATURE = re.compile(r"[0-9a-f]{128}")


def sign(purpose: str, content: bytes, key: Ed25519PrivateKey) -> str:
    """The signature as 128 hex digits. Signed in front of the content is its purpose: it passes for no other one."""
    return key.sign(_bound(purpose, content)).hex()


def is_signed(purpose: str, content: bytes, signature: bytes, public_key: str) -> bool:
    """Whether the signature is that key's for exactly this content and purpose."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(signature, _bound(purpose, content))
    except InvalidSignature:
        return False
    return True


def public_key_of(key: Ed25519PrivateKey) -> str:
    """The public key as QTG's files and commands name it: 64 hex digits."""
    return key.public_key().public_bytes_raw().hex()


def read_private_key(pem: bytes, what: str, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """The ed25519 key in a PEM; raises `ConfigurationError`, which says nothing of what was given."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's reason may hold parts of what it was given.
        raise ConfigurationError(f"{what}: not a private key in PEM that this passphrase opens") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(f"{what}: not an ed25519 key; make one with openssl genpkey -algorithm ed25519")
    return key


def _bound(purpose: str, content: bytes) -> bytes:
    return purpose.encode() + b"\n" + content
