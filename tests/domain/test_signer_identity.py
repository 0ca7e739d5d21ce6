"""The posture of a signer follows from what was enrolled and what was seen."""

from __future__ import annotations

import pytest

from qtg_dagster.domain.signer_identity import Posture, SignerIdentity

ONE, OTHER = "0x" + "11" * 20, "0x" + "22" * 20


@pytest.mark.parametrize(
    ("expected", "observed", "posture"),
    [
        (None, None, Posture.UNENROLLED),
        (None, ONE, Posture.UNENROLLED),
        (ONE, None, Posture.UNOBSERVED),
        (ONE, ONE, Posture.MATCHES),
        (ONE, OTHER, Posture.DIFFERS),
    ],
)
def test_posture(expected: str | None, observed: str | None, posture: Posture) -> None:
    identity = SignerIdentity("signer.local.treasury", expected, observed, True)
    assert identity.posture is posture
    assert all(address in identity.told() for address in (expected, observed) if address)
