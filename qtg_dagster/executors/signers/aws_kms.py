"""A signer whose key is in AWS KMS and never leaves it: KMS is given the 32 bytes to sign, after all checks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from qtg_dagster.domain.errors import ConfigurationError, SigningRefused
from qtg_dagster.executors.signers.encoding import CURVE_ORDER, assemble, recover_address, signing_digest
from qtg_dagster.executors.signers.guarded import Agreed, GuardedSigner, SignerUnavailable
from qtg_dagster.executors.signers.journal import SignerJournal
from qtg_dagster.inventory import AwsKmsSignerEntry, Inventory

T = TypeVar("T")


class AwsKmsSigner(GuardedSigner):
    """Signs by an asymmetric KMS key of the curve secp256k1; KMS calls are made in threads."""

    def __init__(self, key: str, entry: AwsKmsSignerEntry, inventory: Inventory, journal: SignerJournal) -> None:
        super().__init__(key, entry, inventory, journal)
        self._entry = entry
        self._client: Any = None
        self._client_lock = threading.Lock()
        self._address: str | None = None

    async def _sender(self) -> str:
        if self._address is None:
            self._address = await self._observe()
        return self._address

    async def _sign(self, agreed: Agreed) -> str:
        digest = signing_digest(agreed.read)
        der = await asyncio.to_thread(self._ask, lambda kms: self._signature_of(kms, digest))
        r, s = _decoded(der)
        # The chain takes only the lower of the two forms that a signature has; KMS gives either.
        s = min(s, CURVE_ORDER - s)
        for parity in (0, 1):
            if recover_address(digest, parity, r, s) == agreed.sender:
                return assemble(agreed.read, parity, r, s)
        raise SigningRefused(f"{self._key}: KMS signed with another key than that of {agreed.sender}")

    async def _observe(self) -> str:
        return await asyncio.to_thread(self._ask, self._public_address)

    def _signature_of(self, kms: Any, digest: bytes) -> bytes:
        answer = kms.sign(
            KeyId=self._entry.key_id, Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256"
        )
        return bytes(answer["Signature"])

    def _public_address(self, kms: Any) -> str:
        answer = kms.get_public_key(KeyId=self._entry.key_id)
        where = f"signers.{self._key}.key_id"
        if answer.get("KeyUsage") != "SIGN_VERIFY":
            raise ConfigurationError(f"{where}: the key's usage is {answer.get('KeyUsage')}; make one for SIGN_VERIFY")
        return _address_of(bytes(answer["PublicKey"]), where)

    def _ask(self, call: Callable[[Any], T]) -> T:
        try:
            import boto3  # noqa: F401
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError:
            raise ConfigurationError(f"signers.{self._key}: boto3 is not installed; install qtg-dagster[aws]") from None
        try:
            return call(self._kms())
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "unknown")
            raise SignerUnavailable(f"{self._key}: KMS refuses {error.operation_name} with {code}") from None
        except BotoCoreError as error:
            # Its text may name what it was configured with.
            raise SignerUnavailable(f"{self._key}: KMS cannot be asked: {type(error).__name__}") from None

    def _kms(self) -> Any:
        with self._client_lock:
            if self._client is None:
                self._client = _client(self._entry)
        return self._client


def _client(entry: AwsKmsSignerEntry) -> Any:
    """A KMS client with bounded waiting and no repeats of its own; credentials come the way AWS's tools find them."""
    import boto3
    from botocore.config import Config

    bounds = Config(
        connect_timeout=entry.timeout_seconds,
        read_timeout=entry.timeout_seconds,
        retries={"total_max_attempts": 1},
    )
    session = boto3.Session(profile_name=entry.profile, region_name=entry.region)
    return session.client("kms", endpoint_url=entry.endpoint_url, config=bounds)


def _decoded(der: bytes) -> tuple[int, int]:
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    try:
        r, s = decode_dss_signature(der)
    except ValueError:
        raise SigningRefused("KMS: the answer is not a DER signature") from None
    if not (0 < r < CURVE_ORDER and 0 < s < CURVE_ORDER):
        raise SigningRefused("KMS: the answer's numbers are outside the curve's order")
    return r, s


def _address_of(spki: bytes, where: str) -> str:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
    from eth_utils.crypto import keccak

    try:
        public = load_der_public_key(spki)
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigurationError(f"{where}: KMS answers with a public key that cannot be read") from None
    if not isinstance(public, EllipticCurvePublicKey) or not isinstance(public.curve, SECP256K1):
        raise ConfigurationError(f"{where}: the key is not of the curve secp256k1; make one with ECC_SECG_P256K1")
    point = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return "0x" + keccak(point[1:])[-20:].hex()
