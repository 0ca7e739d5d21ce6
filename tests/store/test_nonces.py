"""Nonces are given out once and without gaps, and come back only when nothing can have been sent."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy.exc import IntegrityError

from qtg_dagster.domain.errors import Conflict, SigningRefused
from qtg_dagster.store.database import Database
from qtg_dagster.store.nonces import NonceLedger
from qtg_dagster.store.signer_journal import SignerJournal
from tests.store.conftest import Seed

CHAIN, SENDER = "eip155:1", "0x" + "Ab" * 20


class Ledger:
    """The ledger for one sender, and the rows it keeps."""

    def __init__(self, database: Database, seed: Seed) -> None:
        self.nonces = NonceLedger(database)
        self.signer = SignerJournal(database)
        self.seed = seed

    async def reserve(self, node: str, *, attempt: int = 1, chain_nonce: int = 0, chain: str = CHAIN) -> int:
        return await self.nonces.reserve(
            chain=chain, sender=SENDER, request_node_id=node, attempt_no=attempt, chain_nonce=chain_nonce
        )

    async def intend(self, node: str, *, attempt: int = 1, outcome: str | None = None) -> None:
        """As the engine does: the attempt is written, and the nonce bound to it."""
        await self.seed.sql(
            "INSERT INTO qtg.movement_node_attempts (request_node_id, attempt_no, idempotency_key, prepared, "
            "payload_hash, outcome) VALUES (CAST(:n AS uuid), :a, :k, '{}', 'h', :o)",
            n=node, a=attempt, k=f"{node}{attempt}", o=outcome,
        )  # fmt: skip
        await self.seed.sql(
            "UPDATE qtg.evm_nonce_reservation SET reservation_state = 'BOUND', payload_hash = 'h' "
            "WHERE request_node_id = CAST(:n AS uuid) AND attempt_no = :a",
            n=node, a=attempt,
        )  # fmt: skip

    async def sign(self, node: str, nonce: int, effect: str = "e", role: str = "desk:1") -> None:
        await self.signer.record(
            chain=CHAIN, sender=SENDER, nonce=nonce, request_node_id=node, role=role, effect_hash=effect
        )

    async def reap(self, *, age: float = 0) -> int:
        await self.seed.sql("UPDATE qtg.evm_nonce_reservation SET reserved_at = now() - interval '100 s'")
        return await self.nonces.reap(max_age_seconds=age)

    async def live(self) -> dict[int, str]:
        rows = await self.seed.rows(
            "SELECT nonce, reservation_state FROM qtg.evm_nonce_reservation WHERE reservation_state <> 'RELEASED'"
        )
        return {row["nonce"]: row["reservation_state"] for row in rows}


@pytest.fixture
def ledger(database: Database, seed: Seed) -> Ledger:
    return Ledger(database, seed)


async def test_the_same_attempt_has_the_same_nonce(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    assert [await ledger.reserve(a, chain_nonce=5) for _ in range(3)] == [5, 5, 5]
    assert await ledger.reserve(b, chain_nonce=5) == 6
    assert await ledger.reserve(a, chain_nonce=5) == 5


async def test_many_at_once_get_distinct_nonces_without_a_gap(ledger: Ledger) -> None:
    nodes = await ledger.seed.movement(*[None] * 20)
    got = await asyncio.gather(*(ledger.reserve(node, chain_nonce=3) for node in nodes))
    assert sorted(got) == list(range(3, 23))


async def test_chains_and_senders_count_for_themselves(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    assert await ledger.reserve(a, chain_nonce=9) == 9
    assert await ledger.reserve(b, chain_nonce=2, chain="eip155:10") == 2
    rows = await ledger.seed.rows("SELECT DISTINCT sender FROM qtg.evm_nonce_reservation")
    assert rows == [{"sender": SENDER.lower()}]


async def test_a_released_gap_is_filled_first(ledger: Ledger) -> None:
    a, b, c, d = await ledger.seed.movement(*[None] * 4)
    for node in (a, b, c):
        await ledger.reserve(node)
    await ledger.intend(a)
    await ledger.intend(c)
    assert await ledger.reap() == 1
    assert await ledger.live() == {0: "BOUND", 2: "BOUND"}
    assert await ledger.reserve(d) == 1
    assert await ledger.reserve(b) == 3


async def test_nothing_below_the_chains_count_is_given_out(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    assert await ledger.reserve(a, chain_nonce=4) == 4
    assert await ledger.reserve(b, chain_nonce=10) == 10


async def test_an_attempt_that_never_left_hands_its_nonce_on(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    assert await ledger.reserve(a) == 0
    await ledger.intend(a, outcome="NOT_SENT")
    assert await ledger.reserve(b) == 1
    assert await ledger.reserve(a, attempt=2) == 0
    assert await ledger.live() == {0: "RESERVED", 1: "RESERVED"}


@pytest.mark.parametrize("outcome", [None, "UNKNOWN", "ACCEPTED", "FAILED"])
async def test_an_attempt_that_may_have_left_keeps_its_nonce(ledger: Ledger, outcome: str | None) -> None:
    [a] = await ledger.seed.movement(None)
    assert await ledger.reserve(a) == 0
    await ledger.intend(a, outcome=outcome)
    assert await ledger.reserve(a, attempt=2) == 1
    assert await ledger.reap() == 1  # the second attempt's, which nobody intended yet
    assert await ledger.live() == {0: "BOUND"}


async def test_the_reaper_leaves_what_was_signed_intended_or_is_young(ledger: Ledger) -> None:
    signed, intended, forgotten = await ledger.seed.movement(None, None, None)
    for node in (signed, intended, forgotten):
        await ledger.reserve(node)
    await ledger.sign(signed, 0)
    await ledger.intend(intended)
    assert await ledger.reap(age=1000) == 0
    assert await ledger.reap() == 1
    assert await ledger.live() == {0: "RESERVED", 1: "BOUND"}
    [released] = await ledger.seed.rows(
        "SELECT s.facts FROM qtg.evm_nonce_reservation v JOIN qtg.movement_node_steps s ON s.id = v.evidence_step_id"
    )
    assert released["facts"]["released_nonce"] == 2
    assert await ledger.reap() == 0


async def test_reapers_at_once_release_each_nonce_once(ledger: Ledger) -> None:
    for node in await ledger.seed.movement(*[None] * 6):
        await ledger.reserve(node)
    assert sum(await asyncio.gather(*(ledger.reap() for _ in range(4)))) == 6
    [row] = await ledger.seed.rows("SELECT count(*) AS n FROM qtg.movement_node_steps")
    assert row["n"] == 6


async def test_the_database_refuses_a_second_live_holder(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    await ledger.reserve(a)
    with pytest.raises(IntegrityError):
        await ledger.seed.sql(
            "INSERT INTO qtg.evm_nonce_reservation (chain, sender, nonce, request_node_id, attempt_no, "
            "reservation_state) SELECT chain, sender, nonce, CAST(:n AS uuid), 1, 'RESERVED' "
            "FROM qtg.evm_nonce_reservation",
            n=b,
        )


async def test_a_nonce_signs_one_effect_and_the_same_one_again(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    for _ in range(2):
        await ledger.sign(a, 0, "effect")
    with pytest.raises(SigningRefused, match="another effect"):
        await ledger.sign(a, 0, "other")
    with pytest.raises(SigningRefused, match="another effect"):
        await ledger.sign(b, 0, "other")
    with pytest.raises(SigningRefused, match="another effect"):
        await ledger.sign(a, 1, "other")  # the same role of the same node under another nonce
    await ledger.sign(a, 1, "other", role="desk:2")
    await ledger.sign(b, 2, "third")
    rows = await ledger.seed.rows("SELECT nonce, effect_hash FROM qtg.signer_journal ORDER BY nonce")
    assert [tuple(row.values()) for row in rows] == [(0, "effect"), (1, "other"), (2, "third")]


async def test_of_two_effects_that_race_for_a_nonce_one_is_signed(ledger: Ledger) -> None:
    nodes = await ledger.seed.movement(*[None] * 8)
    done = await asyncio.gather(*(ledger.sign(n, 0, f"effect of {n}") for n in nodes), return_exceptions=True)
    assert [type(item) for item in done].count(SigningRefused) == 7


async def fill(ledger: Ledger, node: str, nonce: int, effect: str = "nothing") -> None:
    await ledger.signer.record_fill(
        chain=CHAIN,
        sender=SENDER,
        nonce=nonce,
        request_node_id=node,
        role=f"evm_nonce_fill#{nonce}",
        effect_hash=effect,
    )


async def test_what_fills_a_nonce_stands_beside_what_was_signed_and_ends_it(ledger: Ledger) -> None:
    [a] = await ledger.seed.movement(None)
    with pytest.raises(SigningRefused, match="signed nothing under it"):
        await fill(ledger, a, 0)
    await ledger.sign(a, 0, "effect")
    await asyncio.gather(*(fill(ledger, a, 0) for _ in range(4)))
    with pytest.raises(SigningRefused, match="another effect"):
        await ledger.sign(a, 0, "effect")
    rows = await ledger.seed.rows("SELECT purpose, effect_hash FROM qtg.signer_journal ORDER BY purpose")
    assert [tuple(row.values()) for row in rows] == [("effect", "effect"), ("fill", "nothing")]


async def test_a_nonce_is_filled_by_one_effect_alone(ledger: Ledger) -> None:
    [a] = await ledger.seed.movement(None)
    await ledger.sign(a, 0, "effect")
    await fill(ledger, a, 0)
    with pytest.raises(SigningRefused):
        await fill(ledger, a, 0, "something")


async def end(ledger: Ledger, node: str, state: str) -> None:
    """Take a READY node to a state in which it does nothing more."""
    if state == "FAILED":
        await ledger.seed.sql(
            "WITH s AS (INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, facts) "
            "VALUES (CAST(:n AS uuid), 1, 'refused', '{}') RETURNING id) "
            "UPDATE qtg.movement_request_nodes SET node_state = 'FAILED', evidence_step_id = s.id FROM s "
            "WHERE movement_request_nodes.id = CAST(:n AS uuid)",
            n=node,
        )
    else:
        await ledger.seed.sql(
            "UPDATE qtg.movement_request_nodes SET node_state = :s WHERE id = CAST(:n AS uuid)", n=node, s=state
        )


@pytest.mark.parametrize("state", ["CANCELLED", "FAILED"])
async def test_nothing_is_sent_above_a_nonce_that_will_never_be_used(ledger: Ledger, state: str) -> None:
    """Signed, then called off before the intent: whatever is sent above it would hang, and no one would be told."""
    a, b = await ledger.seed.movement(None, None)
    assert await ledger.reserve(a, chain_nonce=4) == 4
    await ledger.sign(a, 4)
    await end(ledger, a, state)
    with pytest.raises(Conflict, match=rf"nonce 4 of .*{a}, which is {state}"):
        await ledger.reserve(b, chain_nonce=4)
    assert await ledger.live() == {4: "RESERVED"}, "the refused node holds nothing"
    assert await ledger.reserve(b, chain_nonce=5) == 5, "used by whoever filled it"


async def test_bytes_that_no_chain_takes_leave_a_hole_too(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    await ledger.reserve(a)
    await ledger.intend(a, outcome="REJECTED")
    for node, attempt in ((a, 2), (b, 1)):
        with pytest.raises(Conflict, match="nonce 0 "):
            await ledger.reserve(node, attempt=attempt)
    assert await ledger.reserve(a, attempt=2, chain_nonce=1) == 1


async def test_an_unsigned_hole_closes_by_itself(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    await ledger.reserve(a)
    await end(ledger, a, "CANCELLED")
    with pytest.raises(Conflict, match="nonce 0 "):
        await ledger.reserve(b)
    assert await ledger.reap() == 1
    assert await ledger.reserve(b) == 0


async def test_what_can_never_be_released_is_not_waited_for(ledger: Ledger) -> None:
    """A schedule that asks how many are due would otherwise start a run each time, for ever."""
    a, b = await ledger.seed.movement(None, None)
    await ledger.sign(a, await ledger.reserve(a))
    await ledger.reserve(b)
    await ledger.seed.sql("UPDATE qtg.evm_nonce_reservation SET reserved_at = now() - interval '100 s'")
    assert await ledger.nonces.count_unused(max_age_seconds=50) == 1
    assert await ledger.nonces.reap(max_age_seconds=50) == 1
    assert await ledger.nonces.count_unused(max_age_seconds=0) == 0


async def test_a_nonce_that_was_signed_after_it_was_given_back_is_given_to_nobody_else(ledger: Ledger) -> None:
    """Its worker slept until the reaper had been there, and then signed: another would be refused for good."""
    slow, other = await ledger.seed.movement(None, None)
    assert await ledger.reserve(slow) == 0
    assert await ledger.reap() == 1
    await ledger.sign(slow, 0)
    with pytest.raises(Conflict, match=rf"was signed for node {slow}, which holds it no more; `qtg nonce fill"):
        await ledger.reserve(other)
    assert await ledger.reserve(slow) == 0, "its own node signs the same again"


async def test_while_its_nonce_is_filled_a_node_gets_no_other_and_nobody_gets_one_above(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    await ledger.sign(a, await ledger.reserve(a))
    await ledger.seed.sql("UPDATE qtg.evm_nonce_reservation SET reservation_state = 'FILLING'")
    with pytest.raises(Conflict, match="signed for this very node, is being filled"):
        await ledger.reserve(a)
    with pytest.raises(Conflict, match="is being filled"):
        await ledger.reserve(a, attempt=2, chain_nonce=1)
    with pytest.raises(Conflict, match="is READY, and is being filled"):
        await ledger.reserve(b)
    assert await ledger.reserve(b, chain_nonce=1) == 1, "it is mined: others go on"


async def test_a_closed_nonce_is_never_given_out_again_whatever_an_endpoint_says(ledger: Ledger) -> None:
    a, b = await ledger.seed.movement(None, None)
    await ledger.sign(a, await ledger.reserve(a))
    await end(ledger, a, "CANCELLED")
    await ledger.seed.sql(
        "WITH s AS (INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, facts) "
        "VALUES (CAST(:n AS uuid), 1, 'observed', '{}') RETURNING id) UPDATE qtg.evm_nonce_reservation "
        "SET reservation_state = 'CLOSED', used_by = 'filler', evidence_step_id = s.id FROM s",
        n=a,
    )
    with pytest.raises(IntegrityError, match="closed_has_evidence"):
        await ledger.seed.sql("UPDATE qtg.evm_nonce_reservation SET evidence_step_id = NULL")
    assert await ledger.reserve(b, chain_nonce=1) == 1
    assert await ledger.live() == {0: "CLOSED", 1: "RESERVED"}
