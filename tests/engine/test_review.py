"""What an approver is shown is read from where it stands, and reading it changes nothing anywhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from qtg_dagster.domain.balances import BalanceReading
from qtg_dagster.domain.contract import ExecutionContext, HealthState
from qtg_dagster.domain.errors import NotFound
from qtg_dagster.domain.plans import Plan, RiskControls
from qtg_dagster.domain.review import FeeEstimate, Holding, NotKnown, Review
from qtg_dagster.domain.review_warnings import warnings
from qtg_dagster.engine.breakers import open_breaker
from qtg_dagster.engine.requests import approve_movement
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.store.balances import append_balances
from qtg_dagster.store.health import SeenHealth, record_executors, register_executors
from qtg_dagster.store.last_known import reading as looking
from qtg_dagster.treasury.limits import set_velocity_limit
from qtg_dagster.treasury.review import review_movement
from qtg_dagster.upkeep.health import refresh_health
from qtg_dagster.upkeep.signer_identity import enrol_signer
from tests.engine.desk import Desk
from tests.engine.plans import node, plan_of
from tests.engine.provider import ScriptedExecutor

CHAIN, OURS = "eip155:1", "0x" + "11" * 20
TERMS = {"asset": "USDC", "amount": "$param:amount", "chain": CHAIN, "account": "treasury", "destination": "0xallowed"}
HELD = Holding(CHAIN, OURS, "USDC")


class Estimating(ScriptedExecutor):
    """An executor that can say what its action costs, or why not."""

    fee: FeeEstimate | Exception = FeeEstimate(asset="USDC", amount="0.3", how="as listed")

    async def estimate_fee(self, context: ExecutionContext) -> FeeEstimate:
        assert context.node_config["amount"] == "12.5"
        if isinstance(self.fee, Exception):
            raise self.fee
        return self.fee


class Fetcher:
    """A chain that says what we hold, fails, or hangs."""

    venue_key, paying_wallet = CHAIN, "main"

    def __init__(
        self,
        free: str = "100",
        failure: Exception | None = None,
        *,
        hangs: bool = False,
        others: tuple[BalanceReading, ...] = (),
    ) -> None:
        self.free, self.failure, self.hangs, self.asked = free, failure, hangs, 0
        self.others = others

    async def fetch(self) -> tuple[BalanceReading, ...]:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        return (reading(self.free), *self.others)


def reading(free: str, wallet: str = "main") -> BalanceReading:
    now = datetime.now(UTC)
    moment = {"request_started_at": now, "request_ended_at": now}
    return BalanceReading(venue_key=CHAIN, account=OURS, wallet=wallet, asset="USDC", free=free, **moment)


def transfer(**rest: Any) -> Plan:
    executor = rest.pop("executor", "exec.local.estimating")
    first = node("first", executor=executor, config=TERMS, signer_role="desk")
    return plan_of(first, key="transfer", **rest)


@pytest.fixture(autouse=True)
def estimating(executors: ExecutorRegistry, desk: Desk) -> Estimating:
    executor = Estimating(desk.provider)
    executors.register("exec.local.estimating", executor)
    return executor


async def look(desk: Desk, *fetchers: Fetcher, patience: float = 5) -> Review:
    return await review_movement(desk.engine, fetchers or (Fetcher(),), desk.request_id, patience=patience)


def free_at(review: Review) -> str:
    readings = review.balances[CHAIN]
    assert not isinstance(readings, NotKnown)
    return readings[HELD].free


async def everything(desk: Desk) -> dict[str, object]:
    """A fingerprint of every table there is."""
    tables = await desk.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'qtg'")
    found = {}
    for name in sorted(row["table_name"] for row in tables):
        [row] = await desk.rows(f"SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) AS all_of_it FROM qtg.{name} t")  # noqa: S608
        found[name] = row["all_of_it"]
    return found


async def test_looking_changes_no_row_and_asks_no_executor_to_check_prepare_or_submit(desk: Desk) -> None:
    await desk.create(transfer())
    before = await everything(desk)
    await look(desk)
    assert await everything(desk) == before
    assert before["movement_requests"] is not None
    assert (desk.provider.calls, desk.provider.book, desk.signer.requests) == ([], [], [])


async def test_all_is_shown_of_a_movement_that_nothing_speaks_against(desk: Desk) -> None:
    await desk.create(transfer(), reason="top up")
    await record(desk, HealthState.HEALTHY, "")
    await enrolled(desk)
    review = await look(desk)
    assert [said for said in warnings(review) if not said.startswith("signer.local.desk is unknown")] == []
    assert review.reason == "top up"
    assert review.unchanged == (True, True)
    [first] = review.nodes
    assert (first.executor, first.signer) == ("exec.local.estimating", "signer.local.desk")
    assert dict(first.config) == {**TERMS, "amount": "12.5"}
    assert review.fees["first"] == FeeEstimate(asset="USDC", amount="0.3", how="as listed")


async def enrolled(desk: Desk) -> None:
    await enrol_signer(desk.engine, "signer.local.desk", OURS, actor="olivia", reason="from the ceremony")
    await desk.sql("UPDATE qtg.signer_registry SET observed_signer_address = expected_signer_address")


async def record(desk: Desk, state: HealthState, detail: str) -> None:
    async with desk.engine.database.transaction() as tx:
        await register_executors(tx, "sandbox", ["exec.local.estimating"])
        await record_executors(tx, "sandbox", [SeenHealth("exec.local.estimating", state, detail, 1.0)])


async def test_an_executor_that_is_down_and_one_never_checked_are_warned_of(desk: Desk) -> None:
    await desk.create(transfer())
    assert "exec.local.estimating is unknown: never checked" in warnings(await look(desk))
    await record(desk, HealthState.DOWN, "no route")
    assert any(said.startswith("exec.local.estimating is down: no route") for said in warnings(await look(desk)))


async def test_what_the_health_round_found_is_what_is_shown(desk: Desk) -> None:
    await desk.create(transfer())
    await refresh_health(desk.engine)
    review = await look(desk)
    assert not isinstance(review.health, NotKnown)
    assert review.health["exec.local.estimating"].detail == "has nothing to reach"
    assert review.health["exec.local.estimating"].checked_at is not None


async def test_a_daily_limit_without_room_is_warned_of_before_anybody_approves(desk: Desk) -> None:
    await set_velocity_limit(desk.engine, "USDC", "20", actor="olivia", reason="quiet")
    await desk.begin(transfer())
    await desk.dispatch()
    await desk.create(transfer())
    said = "it takes 12.5 USDC, and 7.5 USDC is left of today's limit of 20 USDC: it does not fit"
    assert said in warnings(await look(desk))


async def test_a_breaker_that_would_hold_it_back_is_named_before_anything_is_ready(desk: Desk) -> None:
    await desk.create(transfer())
    await open_breaker(desk.engine, "lane:local", actor="grace", reason="maintenance")
    await open_breaker(desk.engine, "lane:cex", actor="grace", reason="another's")
    [(breaker, keys)] = (await look(desk)).held_by()
    assert (breaker.scope, keys) == ("lane:local", ("first",))


async def test_a_fresh_snapshot_is_believed_and_nobody_is_asked(desk: Desk) -> None:
    desk.under(balance_snapshot_enabled=True)
    await snapshot(desk, "12")
    await desk.create(transfer())
    fetcher = Fetcher("100")
    review = await look(desk, fetcher)
    assert (free_at(review), fetcher.asked) == ("12", 0)
    assert any("12 is free and 12.8 is needed: it is not covered" in said for said in warnings(review))


async def test_the_newest_snapshot_is_the_one_that_counts(desk: Desk) -> None:
    desk.under(balance_snapshot_enabled=True)
    for free in ("12", "90"):
        await snapshot(desk, free)
    await desk.create(transfer())
    assert free_at(await look(desk)) == "90"


async def test_only_the_wallet_that_pays_counts(desk: Desk) -> None:
    """What lies in another wallet pays for nothing, however much later it was read."""
    desk.under(balance_snapshot_enabled=True)
    await snapshot(desk, "12")
    await snapshot(desk, "5000", "funding")
    await desk.sql("UPDATE qtg.balance_snapshots SET complete = false")  # a third wallet could not be read
    await desk.create(transfer())
    assert free_at(await look(desk)) == "12"
    await desk.sql("UPDATE qtg.balance_snapshots SET request_ended_at = now() - interval '1 hour'")
    assert free_at(await look(desk, Fetcher("100", others=(reading("5000", "funding"),)))) == "100"


async def snapshot(desk: Desk, free: str, wallet: str = "main") -> None:
    async with desk.engine.database.transaction() as tx:
        await append_balances(tx, "sandbox", [reading(free, wallet)])


@pytest.mark.parametrize("on", [True, False])
async def test_with_snapshots_old_or_off_the_chain_itself_is_asked(desk: Desk, on: bool) -> None:
    desk.under(balance_snapshot_enabled=on)
    await snapshot(desk, "12")
    if on:
        await desk.sql("UPDATE qtg.balance_snapshots SET request_ended_at = now() - interval '1 hour'")
    await desk.create(transfer())
    fetcher = Fetcher("100")
    review = await look(desk, fetcher)
    assert (free_at(review), fetcher.asked) == ("100", 1)


async def test_an_old_snapshot_stands_in_for_a_chain_that_does_not_answer_and_is_called_old(desk: Desk) -> None:
    await snapshot(desk, "50")
    await desk.create(transfer())
    review = await look(desk, Fetcher(failure=ConnectionError("refused")))
    assert free_at(review) == "50"
    assert any("what it is now is not known: refused" in said for said in warnings(review))


async def test_one_that_hangs_is_given_up_on_and_hides_nothing_else(desk: Desk, estimating: Estimating) -> None:
    estimating.fee = ConnectionError("https://user:hunter2@node.example refused")
    await desk.create(transfer())
    review = await look(desk, Fetcher(hangs=True), patience=1.5)
    assert review.balances[CHAIN] == NotKnown("no answer within 1.5 s, twice")
    fee = review.fees["first"]
    assert isinstance(fee, NotKnown)
    assert "refused" in fee.why
    assert "hunter2" not in fee.why
    assert not isinstance(review.breakers, NotKnown)
    assert not isinstance(review.health, NotKnown)


async def test_a_table_that_cannot_be_read_is_said_to_be_not_known(desk: Desk) -> None:
    await desk.create(transfer())
    await desk.sql("ALTER TABLE qtg.velocity_limits RENAME TO hidden")
    try:
        review = await look(desk)
    finally:
        await desk.sql("ALTER TABLE qtg.hidden RENAME TO velocity_limits")
    assert isinstance(review.velocity, NotKnown)
    assert not isinstance(review.breakers, NotKnown)
    assert not isinstance(review.health, NotKnown)
    [told] = [said for said in warnings(review) if "velocity limits are not known" in said]
    assert "does not exist" in told


async def test_tables_that_somebody_keeps_locked_are_given_up_on_and_the_engine_goes_on(desk: Desk) -> None:
    await desk.create(transfer())
    async with desk.owner.transaction() as other:
        await other.execute(text("LOCK TABLE qtg.breakers, qtg.velocity_limits IN ACCESS EXCLUSIVE MODE"))
        review = await look(desk, patience=1.5)
    late = NotKnown("no answer within 1.5 s, twice")
    assert (review.breakers, review.velocity) == (late, late)
    assert not isinstance(review.health, NotKnown)
    assert free_at(review) == "100"
    again = await look(desk)
    assert (again.breakers, again.velocity) == ([], {})


async def test_what_reads_for_a_review_could_not_write_if_it_tried(desk: Desk) -> None:
    with pytest.raises(DBAPIError, match="read-only transaction"):
        async with looking(desk.engine.database) as transaction:
            await append_balances(transaction, "sandbox", [reading("1")])


async def test_a_fee_over_the_template_s_ceiling_is_warned_of(desk: Desk) -> None:
    tight = RiskControls(hard_cap="1000", max_fee="0.29", destination_allowlist=("0xallowed",))
    await desk.create(transfer(risk_controls=tight))
    assert "first: a fee of 0.3 USDC is over the template's max_fee of 0.29" in warnings(await look(desk))


async def test_an_executor_without_estimates_is_no_cause_for_a_warning(desk: Desk) -> None:
    await desk.create(transfer(executor="exec.local.move"))
    review = await look(desk)
    assert review.fees["first"] == NotKnown("exec.local.move gives no estimates", expected=True)
    assert not any("fee" in said for said in warnings(review))


async def test_a_plan_that_was_changed_behind_our_back_is_the_first_warning(desk: Desk) -> None:
    await desk.create(transfer())
    await desk.sql("ALTER TABLE qtg.movement_requests DISABLE TRIGGER USER")
    try:
        await desk.sql("UPDATE qtg.movement_requests SET input_params = jsonb_build_object('amount', '999')")
    finally:
        await desk.sql("ALTER TABLE qtg.movement_requests ENABLE TRIGGER USER")
    assert "is not the one that was compiled" in warnings(await look_at_changed(desk))[0]


async def look_at_changed(desk: Desk) -> Review:
    return await review_movement(desk.engine, (), desk.request_id)


async def test_an_approved_movement_shows_whose_word_it_has(desk: Desk) -> None:
    await desk.create(transfer(approval={"required": 2}))
    await approve_movement(desk.engine, desk.request_id, actor="grace")
    review = await look(desk)
    assert review.request.approved_by == ("grace",)
    assert not any("nothing to approve" in said for said in warnings(review))
    await approve_movement(desk.engine, desk.request_id, actor="tim")
    assert "the movement is APPROVED: there is nothing to approve" in warnings(await look(desk))


@pytest.mark.parametrize("request_id", ["nonsense", "11111111-1111-1111-1111-111111111111"])
async def test_a_movement_that_is_not_there_is_said_not_to_be(desk: Desk, request_id: str) -> None:
    with pytest.raises(NotFound):
        await review_movement(desk.engine, (), request_id)
