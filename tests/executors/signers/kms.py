"""AWS KMS as its stand-in moto serves it, with the one thing added that moto leaves out: signing a digest as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.utils import (
    Prehashed,
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256
from eth_keys.datatypes import PublicKey
from moto.kms.responses import KmsResponse
from moto.kms.utils import ECDSAPrivateKey

from qtg_dagster.executors.signers.encoding import CURVE_ORDER


@dataclass
class KmsHolder:
    """What KMS is asked, and the ways in which it can be made to answer."""

    url: str
    client: Any
    asked: list[dict[str, str]] = field(default_factory=list)
    form: str = "as it comes"
    forged: bytes | None = None

    def make_key(self, spec: str = "ECC_SECG_P256K1", usage: str = "SIGN_VERIFY") -> str:
        return str(self.client.create_key(KeySpec=spec, KeyUsage=usage)["KeyMetadata"]["KeyId"])

    def address_of(self, key_id: str) -> str:
        """By another way than the signer's: the last 64 bytes of the DER are the point."""
        spki = self.client.get_public_key(KeyId=key_id)["PublicKey"]
        return str(PublicKey(bytes(spki)[-64:]).to_address())

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        holder, answer = self, KmsResponse.sign

        def noted(response: KmsResponse) -> str:
            names = ("KeyId", "MessageType", "SigningAlgorithm")
            holder.asked.append({name: str(response._get_param(name)) for name in names})
            return str(answer(response))

        def prehashed(key: ECDSAPrivateKey, message: bytes, _algorithm: str) -> bytes:
            assert len(message) == 32
            return holder.forged or holder.formed(key.private_key.sign(message, ECDSA(Prehashed(SHA256()))))

        monkeypatch.setattr(KmsResponse, "sign", noted)
        monkeypatch.setattr(ECDSAPrivateKey, "sign", prehashed)

    def formed(self, der: bytes) -> bytes:
        r, s = decode_dss_signature(der)
        low = min(s, CURVE_ORDER - s)
        wanted = {"low": low, "high": CURVE_ORDER - low}.get(self.form, s)
        return encode_dss_signature(r, wanted)
