"""A transfer whose bytes are signed: proven to be the transfer that was prepared."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.contract import PreparedAction, payload_hash
from qtg_dagster.lanes.evm.fate import OwnTransaction
from qtg_dagster.lanes.evm.preflight import Call
from qtg_dagster.lanes.evm.terms import TransferTerms
from qtg_dagster.lanes.evm.transaction import SignedTransaction, UnsignedTransaction


@dataclass(frozen=True, slots=True)
class SentTransfer:
    """Terms, bytes and identity of one signed transfer; there are no bytes of one that was adopted."""

    terms: TransferTerms
    own: OwnTransaction
    signed: str | None
    max_fee_per_gas: int | None

    @classmethod
    def of(cls, terms: TransferTerms, prepared: PreparedAction) -> SentTransfer:
        """Raises `ValueError` when bytes, payload and terms are not one and the same transfer."""
        if prepared.signed_payload is None:
            raise ValueError("there are no signed bytes")
        if payload_hash(prepared.payload) != prepared.payload_hash:
            raise ValueError("the payload does not have its hash")
        planned = UnsignedTransaction.from_payload(prepared.payload)
        signed = SignedTransaction.decode(prepared.signed_payload)
        if signed.unsigned != planned:
            raise ValueError("the signed transaction differs from the payload")
        if signed.sender != terms.sender:
            raise ValueError(f"signed by {signed.sender}, not by account {terms.account}")
        if Call(planned.to, planned.value, planned.data) != Call.of(terms):
            raise ValueError("the payload is another transfer than the node's config")
        own = OwnTransaction(hash=signed.hash, sender=signed.sender, nonce=planned.nonce)
        return cls(terms=terms, own=own, signed=prepared.signed_payload, max_fee_per_gas=planned.max_fee_per_gas)

    def refs(self) -> dict[str, str]:
        return {"tx_hash": self.own.hash, "nonce": str(self.own.nonce)}
