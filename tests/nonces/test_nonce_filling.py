"""A nonce that nobody will use, filled on a real chain: everything above it goes on, and nothing is paid twice."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.errors import Conflict, SigningRefused
from qtg_dagster.domain.nonces import Standing, UsedBy
from qtg_dagster.inventory import SignerPolicy
from qtg_dagster.store.ledger import verify_ledger
from qtg_dagster.upkeep.nonce_alarms import find_alarms
from tests.nonces.conftest import Bench


async def test_a_dead_nonce_below_a_waiting_transaction_is_filled_and_both_are_mined(bench: Bench) -> None:
    dead = await bench.die_after_signing("25")
    waiting = await bench.order("10")
    assert await bench.dispatch() == 1
    await bench.look()
    assert (await bench.node(waiting))["node_state"] == "OBSERVING"
    await bench.cancel(dead)
    assert await bench.count() == 0, "what was sent above the hole waits"

    judged = await bench.desk.look(*bench.key, 0)
    assert judged.found.standing is Standing.DEAD
    filling = await bench.fill()
    assert filling.filler.state == "SENT"
    await bench.mined(2)
    await bench.mine(3)
    await bench.look()
    assert (await bench.node(waiting))["node_state"] == "COMPLETED"
    assert await bench.paid() == 10 * 10**6

    done = await bench.desk.go_on(*bench.key, 0)
    assert done is not None
    assert done.use is not None
    assert done.use.used_by is UsedBy.FILLER
    closed = await bench.reservation()
    assert (closed["reservation_state"], closed["used_by"], closed["used_tx"]) == (
        "CLOSED",
        "filler",
        filling.filler.tx_hash,
    )
    [step] = await bench.rows(
        "SELECT s.facts FROM qtg.movement_node_steps s JOIN qtg.evm_nonce_reservation v ON v.evidence_step_id = s.id"
    )
    assert step["facts"]["taker"] == filling.filler.tx_hash
    assert await bench.fillers() == [(0, "MINED")]
    trail = await bench.rows("SELECT actor, action, subject_id FROM qtg.audit_outbox WHERE subject_type = 'evm_nonce'")
    name = f"{bench.world.chain} {bench.world.treasury} 0"
    assert [tuple(row.values()) for row in trail] == [("olivia", "fill_nonce", name), ("olivia", "nonce_used", name)]


async def test_what_fills_it_moves_nothing_and_goes_to_oneself(bench: Bench) -> None:
    await bench.strand()
    filling = await bench.fill()
    await bench.mined(1)
    sent = await bench.call("eth_getTransactionByHash", filling.filler.tx_hash)
    assert (sent["from"], sent["to"], sent["value"], sent["input"]) == (
        bench.world.treasury,
        bench.world.treasury,
        "0x0",
        "0x",
    )
    assert await bench.paid() == 0


async def test_a_transfer_that_a_dead_nonce_holds_up_names_the_command_and_goes_on_after_it(bench: Bench) -> None:
    await bench.strand()
    request_id = await bench.order("10")
    await bench.dispatch()
    node = await bench.node(request_id)
    assert node["node_state"] == "READY"
    assert f"`qtg nonce fill {bench.world.chain} {bench.world.treasury} 0`" in node["error_message"]
    await bench.fill()
    await bench.mined(1)
    await bench.sql("UPDATE qtg.movement_request_nodes SET next_look_at = NULL")
    await bench.dispatch()
    await bench.mined(2)
    await bench.mine(3)
    await bench.look()
    assert (await bench.node(request_id))["node_state"] == "COMPLETED"


async def test_the_original_that_somebody_broadcasts_in_between_is_found_and_told(bench: Bench) -> None:
    """The filler is signed and stored, and the original, which a dead process had, is mined before it."""
    request_id = await bench.strand()
    [original] = bench.signed
    await bench.call("evm_setAutomine", False)
    await bench.fill()
    await bench.call("anvil_dropAllTransactions")
    await bench.call("eth_sendRawTransaction", original)
    await bench.mine(4)
    filling = await bench.desk.go_on(*bench.key, 0)
    assert filling is not None
    assert filling.use is not None
    assert filling.use.used_by is UsedBy.ORIGINAL
    assert await bench.fillers() == [(0, "SUPERSEDED")]
    assert await bench.paid() == 25 * 10**6
    assert (await bench.node(request_id))["node_state"] == "CANCELLED", "its state is not rewritten: it is told"
    closed = await bench.reservation()
    assert (closed["used_by"], closed["used_tx"]) == ("original", filling.use.tx_hash)
    [row] = await bench.rows("SELECT details FROM qtg.audit_outbox WHERE action = 'nonce_used'")
    assert row["details"]["used_by"] == "original"


async def test_the_original_in_the_pool_makes_it_uncertain_and_calling_it_off_replaces_it(bench: Bench) -> None:
    await bench.strand()
    await bench.call("evm_setAutomine", False)
    await bench.call("eth_sendRawTransaction", bench.signed[0])
    assert (await bench.desk.look(*bench.key, 0)).found.standing is Standing.UNCERTAIN
    with pytest.raises(Conflict, match="--cancel"):
        await bench.fill()
    # Nothing of the original is stored, so its price is learned from the refusal of the first version.
    filling = await bench.fill(cancel=True)
    assert filling.filler.state == "SENT"
    await bench.mine(4)
    assert await bench.paid() == 0
    done = await bench.desk.go_on(*bench.key, 0)
    assert done is not None
    assert done.use is not None
    assert done.use.used_by is UsedBy.FILLER


async def test_two_who_fill_at_once_produce_one_filler(bench: Bench) -> None:
    await bench.strand()
    await bench.call("evm_setAutomine", False)
    fillings = await asyncio.gather(*(bench.fill() for _ in range(4)))
    assert len({filling.filler.tx_hash for filling in fillings}) == 1
    assert await bench.fillers() == [(0, "SENT")]
    pool = await bench.call("txpool_status")
    assert int(pool["pending"], 16) == 1
    again = await bench.fill()
    assert again.filler.tx_hash == fillings[0].filler.tx_hash, "asked again, the same bytes are handed over"


async def test_a_filler_that_is_outbid_is_replaced_by_a_dearer_one(bench: Bench) -> None:
    await bench.strand()
    await bench.call("evm_setAutomine", False)
    first = await bench.fill()
    await bench.call("anvil_setNextBlockBaseFeePerGas", hex(first.filler.fees.max_fee + 10**9))
    await bench.mine(1)
    second = await bench.fill()
    assert second.filler.version == 2
    assert second.filler.fees.max_fee > first.filler.fees.max_fee
    await bench.mine(4)
    done = await bench.desk.go_on(*bench.key, 0)
    assert done is not None
    assert await bench.fillers() == [(0, "SUPERSEDED"), (0, "MINED")]


async def test_a_stuck_transfer_is_called_off_and_its_node_fails_with_the_filler_as_proof(bench: Bench) -> None:
    request_id = await bench.order("25")
    await bench.call("evm_setAutomine", False)
    await bench.dispatch()
    await bench.look()
    assert (await bench.node(request_id))["node_state"] == "OBSERVING"
    with pytest.raises(Conflict, match="HELD"):
        await bench.fill()
    filling = await bench.fill(cancel=True)
    await bench.look()
    assert (await bench.node(request_id))["node_state"] == "OBSERVING", "the filler is not final: nothing is proven"
    await bench.mine(1)
    await bench.look()
    assert (await bench.node(request_id))["node_state"] != "FAILED"
    await bench.mine(4)
    for _ in range(3):
        await bench.look()
    node = await bench.node(request_id)
    assert (node["node_state"], node["error_code"]) == ("FAILED", "NONCE_USED_BY_ANOTHER")
    assert filling.filler.tx_hash in node["error_message"]
    assert await bench.paid() == 0
    await bench.desk.go_on(*bench.key, 0)
    assert await bench.fillers() == [(0, "MINED")]


async def test_a_transfer_that_is_mined_although_it_was_called_off_completes(bench: Bench) -> None:
    request_id = await bench.order("25")
    await bench.call("evm_setAutomine", False)
    await bench.dispatch()
    await bench.look()
    await bench.fill(cancel=True)
    await bench.call("anvil_dropAllTransactions")
    await bench.call("eth_sendRawTransaction", bench.signed[0])
    await bench.mine(4)
    await bench.desk.go_on(*bench.key, 0)
    await bench.look()
    assert (await bench.node(request_id))["node_state"] == "COMPLETED"
    assert await bench.fillers() == [(0, "SUPERSEDED")]
    assert (await bench.reservation())["used_by"] is None, "its node found out by itself: there is nothing to tell"


async def test_a_nonce_that_somebody_may_still_use_is_not_filled(bench: Bench) -> None:
    await bench.die_after_signing()
    with pytest.raises(Conflict, match="HELD, not to be filled: its node is READY"):
        await bench.fill()
    with pytest.raises(Conflict, match="HELD"):
        await bench.fill(cancel=True)
    assert await bench.fillers() == []


async def test_a_signer_that_may_not_leaves_the_order_and_asking_again_goes_on(bench: Bench) -> None:
    await bench.strand()
    signer = bench.platform.signers.resolve("signer.local.treasury")
    allowed = signer._policy
    signer._policy = Forbidding(await allowed.current())
    with pytest.raises(SigningRefused, match="nonce_fills"):
        await bench.fill()
    assert await bench.fillers() == [(0, "ORDERED")]
    [told] = await find_alarms(bench.platform.database, bench.platform.settings)
    assert "policy.nonce_fills" in told.told
    signer._policy = allowed
    assert (await bench.fill()).filler.state == "SENT"
    assert await bench.fillers() == [(0, "SENT")]


class Forbidding:
    """A policy that lets nothing be filled."""

    def __init__(self, policy: SignerPolicy) -> None:
        self._policy = policy

    async def current(self) -> SignerPolicy:
        return self._policy.model_copy(update={"nonce_fills": False})


async def test_one_signed_after_it_was_given_back_is_filled_too(bench: Bench) -> None:
    """The reaper was there while the worker slept: nobody holds the nonce, and nobody else can sign under it."""
    await bench.strand()
    await bench.sql("UPDATE qtg.evm_nonce_reservation SET reservation_state = 'RELEASED', released_at = now()")
    waiting = await bench.order("10")
    await bench.dispatch()
    assert "holds it no more; `qtg nonce fill" in (await bench.node(waiting))["error_message"]
    [judged] = [each for each in await bench.desk.survey() if each.record.nonce == 0]
    assert judged.found.standing is Standing.DEAD
    await bench.fill()
    await bench.mined(1)
    await bench.mine(3)
    done = await bench.desk.go_on(*bench.key, 0)
    assert done is not None
    assert done.use is not None
    await bench.sql("UPDATE qtg.movement_request_nodes SET next_look_at = NULL")
    await bench.dispatch()
    await bench.mined(2)
    assert await bench.paid() == 10 * 10**6
    assert 0 not in [each.record.nonce for each in await bench.desk.survey()]


async def test_a_filler_that_is_reorganised_away_proves_nothing(bench: Bench) -> None:
    await bench.strand()
    filling = await bench.fill()
    await bench.mined(1)
    assert (await bench.desk.go_on(*bench.key, 0)).use is None, "one block is not final"
    await bench.call("evm_setAutomine", False)
    await bench.call("anvil_reorg", 1, [])
    assert await bench.count() == 0
    again = await bench.desk.go_on(*bench.key, 0)
    assert (again.use, again.filler.tx_hash) == (None, filling.filler.tx_hash)
    assert await bench.count("pending") == 1, "the same bytes were handed over again"
    await bench.mine(4)
    assert (await bench.desk.go_on(*bench.key, 0)).use.used_by is UsedBy.FILLER


async def test_the_books_agree_after_a_stuck_transfer_was_called_off(bench: Bench) -> None:
    await bench.order("25")
    await bench.call("evm_setAutomine", False)
    await bench.dispatch()
    await bench.look()
    await bench.fill(cancel=True)
    await bench.mine(5)
    for _ in range(3):
        await bench.look()
    async with bench.platform.database.transaction() as tx:
        report = await verify_ledger(tx, "sandbox")
    assert report.right, report.findings


@pytest.mark.parametrize("faster", ["filler", "original"])
async def test_one_whose_end_nobody_knows_is_called_off_and_ends_as_the_chain_says(bench: Bench, faster: str) -> None:
    """The answer to its broadcast was lost: recovery looks on, and takes the filler for the proof that it is."""
    request_id = await bench.order("25")
    await bench.call("evm_setAutomine", False)
    await bench.dispatch()
    await bench.sql("UPDATE qtg.movement_request_nodes SET node_state = 'UNKNOWN' WHERE node_state = 'SUBMITTED'")
    await bench.sql("UPDATE qtg.movement_node_attempts SET outcome = 'UNKNOWN'")
    judged = await bench.desk.look(*bench.key, 0)
    assert (judged.found.standing, judged.found.fill) == (Standing.UNCERTAIN, None)
    filling = await bench.fill(cancel=True)
    assert (await bench.reservation())["reservation_state"] == "BOUND", "it stays with its node"
    if faster == "original":
        await bench.call("anvil_dropAllTransactions")
        await bench.call("eth_sendRawTransaction", bench.signed[0])
    await bench.mine(5)
    for _ in range(3):
        await bench.look()
    node = await bench.node(request_id)
    assert node["node_state"] == {"filler": "FAILED", "original": "COMPLETED"}[faster]
    assert await bench.paid() == {"filler": 0, "original": 25 * 10**6}[faster]
    [proof] = await bench.rows(
        "SELECT facts FROM qtg.movement_node_steps s JOIN qtg.movement_request_nodes n ON n.evidence_step_id = s.id "
        "WHERE n.node_key = 'transfer'"
    )
    mined = {"filler": filling.filler.tx_hash, "original": node["provider_refs"]["tx_hash"]}[faster]
    assert mined in str(proof["facts"])
