"""Enrolling signers: an operator says who each of them is."""

from __future__ import annotations

from qtg_dagster.domain.chains import evm_address
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.signer_identity import SignerIdentity
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.audit import audit
from qtg_dagster.store.signer_identity import read_roster, write_expected

_NOBODY = "0x" + "0" * 40


async def enrol_signer(engine: Engine, signer_key: str, address: str, *, actor: str, reason: str) -> SignerIdentity:
    """Expect a registered signer to have this address; what was expected before is on record in the audit trail.

    Raises `NotFound` with the known signers, `InvalidInput` for a malformed or zero address or an empty reason.
    """
    engine.signers.resolve(signer_key)
    expected = evm_address(address, field="address")
    if expected == _NOBODY:
        raise InvalidInput("address", "is the zero address", "Give the address of the signer's key.")
    if not reason.strip():
        raise InvalidInput("reason", "is empty", "Say where the address is known from: it goes into the audit trail.")
    network_class = engine.settings.network_class
    async with engine.database.transaction() as tx:
        before = {each.signer_key: each for each in await read_roster(tx, network_class)}.get(signer_key)
        await write_expected(tx, network_class, signer_key, expected)
        await audit(
            tx,
            network_class=network_class,
            actor=actor,
            action="enrol_signer",
            subject_type="signer",
            subject_id=signer_key,
            details={
                "expected": expected,
                "expected_before": before.expected_address if before else None,
                "observed": before.observed_address if before else None,
                "reason": reason,
            },
        )
        [enrolled] = [each for each in await read_roster(tx, network_class) if each.signer_key == signer_key]
    return enrolled
