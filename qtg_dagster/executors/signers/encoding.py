"""The bytes of an EIP-1559 transaction: what a key signs, and whether signed bytes are what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtg_dagster.domain.errors import SigningRefused

if TYPE_CHECKING:
    from qtg_dagster.executors.signers.reading import ReadTransaction

TYPE_2 = b"\x02"
CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
#: In the order in which they are signed; the access list is always empty.
_FIELDS = (
    "chain_id",
    "nonce",
    "max_priority_fee_per_gas",
    "max_fee_per_gas",
    "gas",
    "to",
    "value",
    "data",
    "access_list",
)
#: A plain transfer is under 250 bytes; what is longer is not taken apart.
_MOST_BYTES = 1024


def signing_digest(read: ReadTransaction) -> bytes:
    """The 32 bytes that a key signs for this transaction."""
    import rlp
    from eth_utils.crypto import keccak

    return keccak(TYPE_2 + rlp.encode(_values(read)))


def assemble(read: ReadTransaction, parity: int, r: int, s: int) -> str:
    """The signed transaction as 0x hex."""
    import rlp

    signed = TYPE_2 + rlp.encode([*_values(read), parity, r, s])
    return "0x" + bytes(signed).hex()


def recover_address(digest: bytes, parity: int, r: int, s: int) -> str | None:
    """The lower-case address whose key made this signature of the digest; None when nobody's did."""
    from eth_keys.datatypes import Signature
    from eth_keys.exceptions import BadSignature
    from eth_utils.exceptions import ValidationError

    try:
        recovered = Signature(vrs=(parity, r, s)).recover_public_key_from_msg_hash(digest)
    except (BadSignature, ValidationError):
        return None
    return str(recovered.to_address())


def check_signed(signed: str, read: ReadTransaction, sender: str) -> str:
    """Raise `SigningRefused` unless these bytes are this transaction signed by `sender`; returns the hash, 0x hex.

    Whoever signed, its answer is taken apart here, field by field, and counts only when it spells nothing else.
    """
    from eth_utils.crypto import keccak

    raw = _bytes(signed)
    parity, r, s = _signature(_parts(raw), read)
    if parity not in (0, 1) or not 0 < r < CURVE_ORDER or not 0 < s <= CURVE_ORDER // 2:
        raise SigningRefused("the signed bytes: the signature is not in its one accepted form (parity 0 or 1, low s)")
    if assemble(read, parity, r, s) != "0x" + raw.hex():
        raise SigningRefused("the signed bytes: not the canonical encoding of the transaction")
    signer = recover_address(signing_digest(read), parity, r, s)
    if signer != sender:
        raise SigningRefused(f"the signed bytes: signed by {signer or 'nobody'}, not by {sender}")
    return "0x" + keccak(raw).hex()


def _values(read: ReadTransaction) -> list[int | bytes | list[bytes]]:
    return [
        int(read.chain.removeprefix("eip155:")),
        read.nonce,
        read.max_priority_fee_per_gas,
        read.max_fee_per_gas,
        read.gas,
        bytes.fromhex(read.to[2:]),
        read.value,
        bytes.fromhex(read.data[2:]),
        [],
    ]


def _bytes(signed: str) -> bytes:
    try:
        raw = bytes.fromhex(signed[2 : 2 + 2 * _MOST_BYTES]) if signed.startswith("0x") else b""
    except ValueError:
        raw = b""
    if not raw or len(signed) > 2 + 2 * _MOST_BYTES:
        raise SigningRefused(f"the signed bytes: not 0x hex of at most {_MOST_BYTES} bytes")
    return raw


def _parts(raw: bytes) -> list[object]:
    import rlp
    from rlp.exceptions import DecodingError

    if raw[:1] != TYPE_2:
        raise SigningRefused("the signed bytes: not a transaction of type 2 (EIP-1559)")
    try:
        parts = rlp.decode(raw[1:])
    except (DecodingError, RecursionError):
        raise SigningRefused("the signed bytes: not RLP") from None
    if not isinstance(parts, (list, tuple)) or len(parts) != len(_FIELDS) + 3:
        raise SigningRefused("the signed bytes: not the twelve fields of a signed EIP-1559 transaction")
    return list(parts)


def _signature(parts: list[object], read: ReadTransaction) -> tuple[int, int, int]:
    for name, found, wanted in zip(_FIELDS, parts, _values(read), strict=False):
        expected = _integer(wanted) if isinstance(wanted, int) else wanted
        if (list(found) if isinstance(found, tuple) else found) != expected:
            raise SigningRefused(f"the signed bytes: {name} is {_shown(found)}, {_shown(expected)} was to be signed")
    numbers = [each for each in parts[len(_FIELDS) :] if isinstance(each, bytes)]
    if len(numbers) != 3:
        raise SigningRefused("the signed bytes: the signature is not three numbers")
    parity, r, s = (int.from_bytes(each, "big") for each in numbers)
    return parity, r, s


def _integer(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _shown(value: object) -> str:
    if not isinstance(value, bytes):
        return "a list"
    return "0x" + value[:32].hex() + ("..." if len(value) > 32 else "")
