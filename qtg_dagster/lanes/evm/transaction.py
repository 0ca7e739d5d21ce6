"""An unsigned EIP-1559 transaction as canonical text, and the check that signed bytes are that very transaction."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from qtg_dagster.domain.canonical import canonical_json

PAYLOAD_FORMAT = "evm.eip1559.v1"


@dataclass(frozen=True, slots=True)
class UnsignedTransaction:
    """Every field that the signature covers. Addresses and data are lower-case hex, numbers whole wei or units."""

    chain_id: int
    nonce: int
    to: str
    value: int
    data: str
    gas: int
    max_fee_per_gas: int
    max_priority_fee_per_gas: int

    def payload(self, *, request_node_id: str, attempt_no: int) -> str:
        """The canonical text that is hashed, signed for and checked at submission; numbers as decimal text."""
        fields = {name: str(value) for name, value in asdict(self).items()}
        return canonical_json({"request_node_id": request_node_id, "attempt_no": attempt_no, "transaction": fields})

    @classmethod
    def from_payload(cls, payload: str) -> UnsignedTransaction:
        """Read such a text; raises `ValueError` for any other."""
        try:
            fields: dict[str, str] = json.loads(payload)["transaction"]
            return cls(
                chain_id=int(fields["chain_id"]),
                nonce=int(fields["nonce"]),
                to=fields["to"],
                value=int(fields["value"]),
                data=fields["data"],
                gas=int(fields["gas"]),
                max_fee_per_gas=int(fields["max_fee_per_gas"]),
                max_priority_fee_per_gas=int(fields["max_priority_fee_per_gas"]),
            )
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"not an {PAYLOAD_FORMAT} payload ({type(error).__name__}: {error})") from None


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """Signed bytes, taken apart."""

    hash: str
    sender: str
    unsigned: UnsignedTransaction

    @classmethod
    def decode(cls, signed: str) -> SignedTransaction:
        """Read raw bytes; raises `ValueError` for anything but a signed EIP-1559 transaction."""
        from eth_account import Account
        from eth_account.typed_transactions.typed_transaction import TypedTransaction
        from eth_utils.crypto import keccak
        from hexbytes import HexBytes

        try:
            raw = HexBytes(signed)
            fields: dict[str, Any] = TypedTransaction.from_bytes(raw).as_dict()
            sender = str(Account.recover_transaction(signed)).lower()
        except Exception as error:  # noqa: BLE001 - the libraries raise a dozen kinds for bytes that are no transaction
            raise ValueError(f"not a typed transaction ({type(error).__name__}: {error})") from None
        if int(fields["type"]) != 2 or fields["accessList"]:
            raise ValueError("not a plain EIP-1559 transaction")
        return cls(
            hash="0x" + keccak(raw).hex(),
            sender=sender,
            unsigned=UnsignedTransaction(
                chain_id=int(fields["chainId"]),
                nonce=int(fields["nonce"]),
                to="0x" + bytes(fields["to"]).hex(),
                value=int(fields["value"]),
                data="0x" + bytes(fields["data"]).hex(),
                gas=int(fields["gas"]),
                max_fee_per_gas=int(fields["maxFeePerGas"]),
                max_priority_fee_per_gas=int(fields["maxPriorityFeePerGas"]),
            ),
        )
