"""Enrolling says who a signer should be; the health round alone says who it is, and neither writes the other's word."""

from __future__ import annotations

import pytest

from qtg_dagster.domain.contract import HealthReport, HealthState
from qtg_dagster.domain.errors import InvalidInput, NotFound
from qtg_dagster.domain.signer_identity import Posture, SignerIdentity
from qtg_dagster.store.signer_identity import read_roster
from qtg_dagster.upkeep.health import refresh_health
from qtg_dagster.upkeep.signer_identity import enrol_signer
from tests.engine.desk import Desk

KEY = "signer.local.desk"
ONE, OTHER = "0x" + "11" * 20, "0x" + "22" * 20


async def enrol(desk: Desk, address: str, key: str = KEY) -> SignerIdentity:
    return await enrol_signer(desk.engine, key, address, actor="olivia", reason="read from the device")


async def seen_as(desk: Desk, address: str | None) -> SignerIdentity:
    """The signer after a health round in which it said this of itself."""

    async def health() -> HealthReport:
        return HealthReport(health_state=HealthState.HEALTHY, signer_address=address)

    desk.signer.health = health  # type: ignore[method-assign]
    await refresh_health(desk.engine)
    async with desk.engine.database.transaction() as transaction:
        [identity] = await read_roster(transaction, "sandbox")
    return identity


async def test_expectation_and_observation_are_told_apart(desk: Desk) -> None:
    assert (await seen_as(desk, ONE)).posture is Posture.UNENROLLED
    assert (await enrol(desk, ONE)).posture is Posture.MATCHES
    differing = await seen_as(desk, OTHER)
    assert (differing.posture, differing.expected_address) == (Posture.DIFFERS, ONE)
    assert (await enrol(desk, OTHER.upper().replace("0X", "0x"))).posture is Posture.MATCHES


async def test_one_may_be_enrolled_before_it_was_ever_seen(desk: Desk) -> None:
    assert (await enrol(desk, ONE)).posture is Posture.UNOBSERVED
    assert (await seen_as(desk, ONE)).posture is Posture.MATCHES


async def test_each_enrolment_is_on_record_with_what_it_replaced(desk: Desk) -> None:
    await enrol(desk, ONE)
    await enrol(desk, OTHER)
    told = await desk.rows("SELECT * FROM qtg.audit_outbox WHERE action = 'enrol_signer' ORDER BY id")
    assert [(row["actor"], row["details"]["expected_before"], row["details"]["expected"]) for row in told] == [
        ("olivia", None, ONE),
        ("olivia", ONE, OTHER),
    ]


async def test_what_cannot_be_enrolled_changes_nothing(desk: Desk) -> None:
    with pytest.raises(NotFound, match=KEY):
        await enrol(desk, ONE, key="signer.local.nobody")
    for address in ("0x12", "0x" + "0" * 40):
        with pytest.raises(InvalidInput):
            await enrol(desk, address)
    assert await desk.rows("SELECT 1 FROM qtg.signer_registry") == []
    assert await desk.rows("SELECT 1 FROM qtg.audit_outbox") == []
