"""The signer's own reading of an EVM payload: it trusts no other part of the programme to say what bytes mean."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from qtg_dagster.domain.canonical import canonical_json, digest
from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.domain.nonce_chain import FILL_FORMAT

PAYLOAD_FORMAT = "evm.eip1559.v1"
#: Transfers, and what fills a nonce; one spelling for both.
PAYLOAD_FORMATS = (PAYLOAD_FORMAT, FILL_FORMAT)
_ADDRESS = re.compile(r"0x[0-9a-f]{40}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,77}")
#: transfer(address,uint256): the selector, twelve zero bytes, an address, 32 bytes of amount.
_ERC20_TRANSFER = re.compile(r"0xa9059cbb0{24}([0-9a-f]{40})([0-9a-f]{64})")
_NUMBERS = ("chain_id", "nonce", "value", "gas", "max_fee_per_gas", "max_priority_fee_per_gas")


@dataclass(frozen=True, slots=True)
class ReadTransaction:
    """What would be signed, and what it does. `token` is None for the native coin; `units` are base units."""

    request_node_id: str
    attempt_no: int
    chain: str
    nonce: int
    to: str
    value: int
    data: str
    gas: int
    max_fee_per_gas: int
    max_priority_fee_per_gas: int
    token: str | None
    recipient: str
    units: int

    def effect_hash(self, sender: str) -> str:
        """Identity of what it does, whatever it pays for gas."""
        return effect_hash(self.chain, sender, self.nonce, to=self.to, value=self.value, data=self.data)

    def to_sign(self) -> dict[str, Any]:
        """The transaction as eth-account wants it; the chain id is always in the signature."""
        from eth_utils.address import to_checksum_address

        return {
            "type": 2,
            "chainId": int(self.chain.removeprefix("eip155:")),
            "nonce": self.nonce,
            "to": to_checksum_address(self.to),
            "value": self.value,
            "data": self.data,
            "gas": self.gas,
            "maxFeePerGas": self.max_fee_per_gas,
            "maxPriorityFeePerGas": self.max_priority_fee_per_gas,
        }


def effect_hash(chain: str, sender: str, nonce: int, *, to: str, value: int, data: str) -> str:
    """What journals keep of a transaction; of a mined one it tells whether it was signed here."""
    return digest("qtg.signer.effect.v1", [chain, sender, str(nonce), to, str(value), data])


def read_payload(payload: str) -> ReadTransaction:
    """Take a payload apart; raises `SigningRefused` for anything but a plain native or ERC-20 transfer."""
    document = _document(payload)
    fields = document["transaction"]
    numbers = {name: _number(fields[name], name) for name in _NUMBERS}
    to, data = fields["to"], fields["data"]
    if not isinstance(to, str) or not _ADDRESS.fullmatch(to):
        raise SigningRefused(f"payload.transaction.to: {to!r} is not a lower-case address")
    token, recipient, units = _effect(to, data, numbers["value"])
    attempt_no = document["attempt_no"]
    if not isinstance(attempt_no, int) or isinstance(attempt_no, bool) or attempt_no < 1:
        raise SigningRefused(f"payload.attempt_no: {attempt_no!r} is not an attempt")
    return ReadTransaction(
        request_node_id=str(document["request_node_id"]),
        attempt_no=attempt_no,
        chain=f"eip155:{numbers['chain_id']}",
        nonce=numbers["nonce"],
        to=to,
        value=numbers["value"],
        data=data,
        gas=numbers["gas"],
        max_fee_per_gas=numbers["max_fee_per_gas"],
        max_priority_fee_per_gas=numbers["max_priority_fee_per_gas"],
        token=token,
        recipient=recipient,
        units=units,
    )


def _document(payload: str) -> dict[str, Any]:
    try:
        document = json.loads(payload)
        if canonical_json(document) != payload:
            raise SigningRefused("payload: not in canonical spelling")
    except (ValueError, TypeError):
        raise SigningRefused("payload: not canonical JSON") from None
    if not isinstance(document, dict) or set(document) != {"request_node_id", "attempt_no", "transaction"}:
        raise SigningRefused("payload: other fields than request_node_id, attempt_no and transaction")
    fields = document["transaction"]
    if not isinstance(fields, dict) or set(fields) != {*_NUMBERS, "to", "data"}:
        raise SigningRefused("payload.transaction: other fields than an EIP-1559 transfer has")
    return document


def _number(value: Any, name: str) -> int:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        raise SigningRefused(f"payload.transaction.{name}: {value!r} is not a whole number as text")
    number = int(value)
    if number >= 2**256:
        raise SigningRefused(f"payload.transaction.{name}: {value} does not fit 256 bits")
    return number


def _effect(to: str, data: Any, value: int) -> tuple[str | None, str, int]:
    if data == "0x":
        return None, to, value
    call = _ERC20_TRANSFER.fullmatch(data) if isinstance(data, str) else None
    if call is None:
        selector = data[:10] if isinstance(data, str) else repr(data)
        raise SigningRefused(f"payload.transaction.data: {selector} is no call this signer knows")
    if value:
        raise SigningRefused("payload.transaction.value: a token transfer that also sends native coins")
    return to, "0x" + call.group(1), int(call.group(2), 16)
