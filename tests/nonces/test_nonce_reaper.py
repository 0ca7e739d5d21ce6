"""The reaper's pass over signed nonces: what it settles, what it tells, and what it fills when it may."""

from __future__ import annotations

from typing import Any

import pytest

from assets.nonces import find_dead_nonces
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.engine.adoption import adopt
from qtg_dagster.engine.interventions import retry_node
from qtg_dagster.treasury.limits import clear_velocity_limit, set_velocity_limit
from qtg_dagster.upkeep.nonce_reaper import count_due_nonces, look_after_nonces
from tests.nonces.conftest import Bench


async def reap(bench: Bench, **settings: Any) -> Any:
    """A pass under other settings, over nonces that were reserved long ago and judged by nobody."""
    await bench.sql("UPDATE qtg.evm_nonce_reservation SET reserved_at = now() - interval '1 day', judged_at = NULL")
    engine = bench.platform.engine
    changed = engine.settings.model_copy(update=settings)
    object.__setattr__(engine, "settings", changed)
    return await look_after_nonces(engine, bench.platform.nonce_chain)


async def dead(bench: Bench) -> dict[str, str]:
    """What the check tells."""
    finding = await find_dead_nonces(bench.platform.database, bench.platform.settings)
    return {} if finding.passed else finding.metadata


async def test_a_dead_nonce_is_told_with_what_to_do_and_not_filled_by_itself(bench: Bench) -> None:
    await bench.strand()
    found = await reap(bench)
    name = f"{bench.world.chain} {bench.world.treasury} 0"
    assert (found.dead, found.filled, found.problems) == ([name], 0, [])
    assert f"`qtg nonce fill {name} --by NAME --reason TEXT`" in (await dead(bench))[name]
    assert await bench.fillers() == []
    assert await count_due_nonces(bench.platform.database, bench.platform.settings) == (0, 0), "it was looked at"


async def test_switched_on_it_fills_and_settles_by_itself(bench: Bench) -> None:
    await bench.strand()
    found = await reap(bench, evm_nonce_fill_enabled=True)
    assert (found.filled, found.dead, found.problems) == (1, [], [])
    await bench.mined(1)
    assert "being filled" in next(iter((await dead(bench)).values()))
    await bench.mine(3)
    assert (await reap(bench)).settled == 1
    assert (await bench.reservation())["reservation_state"] == "CLOSED"
    assert await dead(bench) == {}
    assert await count_due_nonces(bench.platform.database, bench.platform.settings) == (0, 0)


async def test_a_young_one_is_left_to_its_operator(bench: Bench) -> None:
    await bench.strand()
    engine = bench.platform.engine
    object.__setattr__(engine, "settings", engine.settings.model_copy(update={"evm_nonce_fill_enabled": True}))
    found = await look_after_nonces(engine, bench.platform.nonce_chain)
    assert (len(found.dead), found.filled) == (1, 0)


async def test_a_filling_that_was_left_half_way_is_gone_on_with_though_nothing_is_switched_on(bench: Bench) -> None:
    await bench.strand()
    await bench.call("evm_setAutomine", False)
    filling = await bench.fill()
    await bench.call("anvil_dropAllTransactions")
    assert await bench.count("pending") == 0
    assert (await reap(bench)).problems == []
    assert await bench.count("pending") == 1, "the stored bytes were handed over again"
    await bench.mine(4)
    await reap(bench)
    assert (await bench.reservation())["used_tx"] == filling.filler.tx_hash


async def test_the_signed_transaction_that_was_mined_for_a_cancelled_movement_stays_told_until_acknowledged(
    bench: Bench,
) -> None:
    """Nobody filled anything: the bytes of a dead process reached the chain."""
    request_id = await bench.strand()
    await bench.sql("UPDATE qtg.movement_requests SET callback_url = 'https://desk.example/hook'")
    await bench.call("eth_sendRawTransaction", bench.signed[0])
    await bench.mined(1)
    await bench.mine(3)
    assert (await reap(bench)).settled == 1
    [told] = (await dead(bench)).values()
    assert "the money has moved" in told
    [callback] = await bench.rows(
        "SELECT request_id::text AS id, event_type, payload FROM qtg.movement_callback_outbox"
    )
    assert (callback["id"], callback["event_type"]) == (request_id, "request_attention")
    assert callback["payload"]["error_code"] == "SIGNED_TRANSACTION_MINED"
    await bench.desk.acknowledge(*bench.key, 0, actor="olivia", reason="asked back")
    assert await dead(bench) == {}
    [deed] = await bench.rows("SELECT actor FROM qtg.audit_outbox WHERE action = 'acknowledge_nonce'")
    assert deed["actor"] == "olivia"
    with pytest.raises(Conflict, match="nothing to acknowledge"):
        await bench.desk.acknowledge(*bench.key, 0, actor="olivia", reason="asked back")


async def test_a_nonce_that_somebody_filled_by_hand_is_closed_as_anothers(bench: Bench) -> None:
    await bench.strand()
    await bench.call("anvil_impersonateAccount", bench.world.treasury)
    by_hand = {"from": bench.world.treasury, "to": bench.faucet.address, "value": "0x1", "nonce": "0x0"}
    await bench.call("eth_sendTransaction", by_hand)
    await bench.mined(1)
    await bench.mine(3)
    assert (await reap(bench)).settled == 1
    assert (await bench.reservation())["used_by"] == "another"
    assert await dead(bench) == {}


async def lose_the_race(bench: Bench) -> str:
    """A transfer whose signature was made before the day's limit was used up, and its intent after."""
    request_id = await bench.order("25")
    engine = bench.platform.engine
    await set_velocity_limit(engine, "USDC", "10", actor="olivia", reason="a quiet day")
    engine.velocity._limits, engine.velocity._read_at = {}, float("inf")  # what was left a moment ago
    await bench.dispatch()
    node = await bench.node(request_id)
    assert (node["node_state"], node["error_code"]) == ("FAILED", "RISK_CONTROL_VIOLATED")
    assert (await bench.reservation())["reservation_state"] == "RESERVED", "signed, so it is not given back"
    await clear_velocity_limit(engine, "USDC", actor="olivia", reason="enough")
    return request_id


async def test_who_lost_the_race_for_a_limit_after_its_signature_leaves_a_dead_nonce_that_a_retry_uses(
    bench: Bench,
) -> None:
    request_id = await lose_the_race(bench)
    assert len((await reap(bench)).dead) == 1
    await retry_node(bench.platform.engine, request_id, "transfer", actor="grace", reason="the limit was raised")
    await bench.dispatch()
    await bench.mined(1)
    assert await bench.paid() == 25 * 10**6
    assert await dead(bench) == {}


async def test_a_retry_waits_for_the_filler_and_then_pays_once_under_another_nonce(bench: Bench) -> None:
    request_id = await lose_the_race(bench)
    await bench.call("evm_setAutomine", False)
    await bench.fill()
    await retry_node(bench.platform.engine, request_id, "transfer", actor="grace", reason="the limit was raised")
    await bench.dispatch()
    node = await bench.node(request_id)
    assert node["node_state"] == "READY"
    assert "is being filled" in node["error_message"]
    await bench.mine(1)
    await bench.sql("UPDATE qtg.movement_request_nodes SET next_look_at = NULL")
    await bench.dispatch()
    assert (await bench.node(request_id))["node_state"] == "READY", "one block is not final: the first could still pay"
    await bench.mine(3)
    await reap(bench)
    await bench.sql("UPDATE qtg.movement_request_nodes SET next_look_at = NULL")
    await bench.dispatch()
    await bench.mine(4)
    await bench.look()
    node = await bench.node(request_id)
    assert (node["node_state"], node["attempt_no"]) == ("COMPLETED", 2)
    assert await bench.paid() == 25 * 10**6


async def test_a_retry_never_pays_what_the_first_signature_paid_after_all(bench: Bench) -> None:
    request_id = await lose_the_race(bench)
    await bench.call("evm_setAutomine", False)
    await bench.fill()
    await bench.call("anvil_dropAllTransactions")
    await bench.call("eth_sendRawTransaction", bench.signed[0])
    await bench.mine(4)
    await reap(bench)
    [told] = (await dead(bench)).values()
    assert f"qtg movement adopt {request_id} transfer 0x" in told
    await retry_node(bench.platform.engine, request_id, "transfer", actor="grace", reason="the limit was raised")
    await bench.dispatch()
    node = await bench.node(request_id)
    assert node["node_state"] == "READY"
    assert "attach that with `qtg movement adopt`" in node["error_message"]
    used = str((await bench.reservation())["used_tx"])
    await adopt(bench.platform.engine, request_id, "transfer", used, actor="grace", reason="it is ours")
    await bench.look()
    assert (await bench.node(request_id))["node_state"] == "COMPLETED"
    assert await bench.paid() == 25 * 10**6
    assert await dead(bench) == {}
