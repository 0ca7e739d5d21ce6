"""Expected and observed identities of signers. The health round writes what it observes (`health`); this writes what an
operator expects, and nothing else does."""

from __future__ import annotations

from sqlalchemy import text

from qtg_dagster.domain.signer_identity import SignerIdentity
from qtg_dagster.store.database import Transaction

_ROSTER = text("""
    SELECT signer_key, expected_signer_address, observed_signer_address, orphan
    FROM qtg.signer_registry
    WHERE network_class = :network_class
    ORDER BY signer_key
""")
_ENROL = text("""
    INSERT INTO qtg.signer_registry AS r (network_class, signer_key, expected_signer_address)
    VALUES (:network_class, :signer_key, :address)
    ON CONFLICT (network_class, signer_key) DO UPDATE SET expected_signer_address = excluded.expected_signer_address
""")


async def read_roster(transaction: Transaction, network_class: str) -> list[SignerIdentity]:
    """Every signer that was ever registered or enrolled, by key."""
    rows = await transaction.execute(_ROSTER, {"network_class": network_class})
    return [
        SignerIdentity(row.signer_key, row.expected_signer_address, row.observed_signer_address, not row.orphan)
        for row in rows
    ]


async def write_expected(transaction: Transaction, network_class: str, signer_key: str, address: str) -> None:
    """Expect a signer to be the one with this address (lower-case hex)."""
    bound = {"network_class": network_class, "signer_key": signer_key, "address": address}
    await transaction.execute(_ENROL, bound)
