"""A transfer whose bytes are signed: proven to be the transfer that was prepared."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.contract import PreparedAction, payload_hash
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.lanes.evm.fate import OwnTransaction
from qtg_dagster.lanes.evm.preflight import Call
from qtg_dagster.lanes.evm.terms import TransferTerms
from qtg_dagster.lanes.evm.transaction import SignedTransaction, UnsignedTransaction


class NotThisTransfer(Conflict):
    """Stored bytes, payload, hash and the node's terms are not one and the same transfer: nothing is done by them."""


@dataclass(frozen=True, slots=True)
class SentTransfer:
    """Terms, bytes and identity of one signed transfer; there are no bytes of one that was adopted."""

    terms: TransferTerms
    own: OwnTransaction
    signed: str | None
    max_fee_per_gas: int | None

    @classmethod
    def of(cls, terms: TransferTerms, prepared: PreparedAction) -> SentTransfer:
        """Raises `NotThisTransfer` when bytes, payload and terms are not one and the same transfer."""
        if prepared.signed_payload is None:
            raise NotThisTransfer("there are no signed bytes")
        if payload_hash(prepared.payload) != prepared.payload_hash:
            raise NotThisTransfer("the payload does not have its hash")
        try:
            planned = UnsignedTransaction.from_payload(prepared.payload)
        except ValueError as error:
            raise NotThisTransfer(f"the payload cannot be read: {error}") from None
        try:
            signed = SignedTransaction.decode(prepared.signed_payload)
        except ValueError as error:
            raise NotThisTransfer(f"the signed bytes cannot be read: {error}") from None
        if signed.unsigned != planned:
            raise NotThisTransfer("the signed transaction differs from the payload")
        if signed.sender != terms.sender:
            raise NotThisTransfer(f"signed by {signed.sender}, not by account {terms.account}")
        if Call(planned.to, planned.value, planned.data) != Call.of(terms):
            raise NotThisTransfer("the payload is another transfer than the node's config")
        own = OwnTransaction(hash=signed.hash, sender=signed.sender, nonce=planned.nonce)
        return cls(terms=terms, own=own, signed=prepared.signed_payload, max_fee_per_gas=planned.max_fee_per_gas)

    def refs(self) -> dict[str, str]:
        return {"tx_hash": self.own.hash, "nonce": str(self.own.nonce)}
