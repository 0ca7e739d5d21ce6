"""A movement looked at on a real chain: its fee and what we hold are read, no nonce is taken, nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from qtg_dagster.composition import Platform, open_platform
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.review import FeeEstimate, Holding, NotKnown, Review
from qtg_dagster.domain.review_warnings import warnings
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import create_movement, publish_template
from qtg_dagster.inventory import Inventory
from qtg_dagster.sandbox.chain import CHAIN, CHAIN_ID
from qtg_dagster.sandbox.faucet import Faucet
from qtg_dagster.sandbox.plans import sample_plans
from qtg_dagster.sandbox.world import World, prepare_world
from qtg_dagster.settings import Settings
from qtg_dagster.treasury.review import review_movement
from qtg_dagster.upkeep.health import refresh_health
from qtg_dagster.upkeep.signer_identity import enrol_signer

SIGNER = "signer.local.treasury"


async def look(platform: Platform, plan: Plan, amount: str) -> Review:
    """A new movement of this plan, looked at."""
    await publish_template(platform.engine, plan)
    order = MovementOrder(template_key=plan.template_key, parameters={"amount": amount}, requested_by="ada")
    request_id = (await create_movement(platform.engine, order)).request_id
    return await review_movement(platform.engine, platform.balance_fetchers, request_id)


def plans_of(world: World) -> dict[str, Plan]:
    return {plan.template_key: plan for plan in sample_plans(Inventory.load(world.inventory_file))}


async def test_fee_balance_health_and_signer_are_read_and_no_nonce_is_reserved(
    start_chain: Callable[[], Any], free_port: int, tmp_path: Path, database_url: str
) -> None:
    world = prepare_world(tmp_path, start_chain().url, free_port)
    plan = plans_of(world)["chain_transfer_usdc"]
    faucet = Faucet(world.chain_url, CHAIN_ID)
    sent_before = faucet.call("eth_getTransactionCount", world.treasury, "pending")
    inventory = Inventory.load(world.inventory_file)
    async with open_platform(Settings(database_url=database_url), inventory=inventory) as platform:
        await refresh_health(platform.engine)
        await enrol_signer(platform.engine, SIGNER, world.treasury, actor="olivia", reason="from the keystore")
        review = await look(platform, plan, "25")
        ceiling = plan.risk_controls.model_copy(update={"max_fee": "0.000000001"})
        tight = await look(platform, plan.model_copy(update={"risk_controls": ceiling}), "25")
        async with platform.database.connection() as connection:
            taken = await (
                await connection.execute(
                    "SELECT (SELECT count(*) FROM qtg.evm_nonce_reservation) AS nonces, "
                    "(SELECT count(*) FROM qtg.signer_journal) AS signatures"
                )
            ).fetchone()
    sent = faucet.call("eth_getTransactionCount", world.treasury, "pending")
    faucet.close()
    assert (taken, sent) == ({"nonces": 0, "signatures": 0}, sent_before)
    assert warnings(review) == ()
    fee = review.fees["transfer"]
    assert isinstance(fee, FeeEstimate)
    assert fee.asset == "ETH"
    assert 0 < Decimal(fee.amount) < Decimal("0.01")
    held = review.balances[CHAIN]
    assert not isinstance(held, NotKnown)
    assert Decimal(held[Holding(CHAIN, world.treasury, "USDC")].free) == 1_000_000
    assert held[Holding(CHAIN, world.treasury, "USDC")].live
    assert review.needed()[Holding(CHAIN, world.treasury, "ETH")] == Decimal(fee.amount)
    [over] = warnings(tight)
    assert over.startswith("transfer: a fee of ")
    assert over.endswith("ETH is over the template's max_fee of 0.000000001")


async def test_an_exchange_that_is_away_hides_nothing_of_the_rest(
    start_chain: Callable[[], Any], free_port: int, tmp_path: Path, database_url: str
) -> None:
    world = prepare_world(tmp_path, start_chain().url, free_port)
    inventory = Inventory.load(world.inventory_file)
    async with open_platform(Settings(database_url=database_url), inventory=inventory) as platform:
        review = await look(platform, plans_of(world)["cex_chain_cex_usdc"], "25")
    assert isinstance(review.balances["venue_a"], NotKnown)
    assert not isinstance(review.balances[CHAIN], NotKnown)
    told = warnings(review)
    assert any(text.startswith("balances at venue_a are not known: ") for text in told)
    assert any(text.startswith("withdraw: the fee is not known: ") for text in told)
    later = review.fees["transfer"]
    assert isinstance(later, NotKnown)
    assert "amount = received_amount of receive, once that is done" in later.why
    assert not any(text.startswith("transfer: the fee") for text in told)
    assert tuple(node.key for node in review.nodes) == (
        "withdraw",
        "withdraw_observe",
        "receive",
        "finality",
        "transfer",
        "deposit_match",
    )
