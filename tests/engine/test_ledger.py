"""The ledger follows the money, whoever moves a node, and its verification finds what does not fit."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.domain.plans import Plan
from qtg_dagster.engine.adoption import adopt
from qtg_dagster.engine.interventions import retry_node
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.store.ledger import verify_ledger
from tests.engine.desk import Desk
from tests.engine.plans import node, plan_of, watch
from tests.engine.provider import ScriptedExecutor, answer

S = ResultStatus
HOME = "chain:eip155:1:0x" + "11" * 20
AWAY = "chain:eip155:1:0xallowed"
TERMS = {"asset": "USDC", "amount": "$param:amount", "chain": "eip155:1", "destination": "0xallowed"}


def transfer() -> Plan:
    """One transfer from the treasury's account, the last word on itself."""
    return plan_of(node("first", config={**TERMS, "account": "treasury"}), key="transfer")


def withdrawal() -> Plan:
    """From a venue to the treasury's account, with its status followed and its arrival seen."""
    status = watch("status", config={"withdrawal_id": "$ref:first.reference"})
    arrival = {"chain": "eip155:1", "account": "treasury", "asset": "USDC", "tx_hash": "$ref:status.tx_hash"}
    receive = watch("receive", config=arrival)
    return plan_of(
        node("first", config={**TERMS, "venue": "venue_a"}),
        status.model_copy(update={"action_type": "cex_withdrawal_status"}),
        receive.model_copy(update={"action_type": "destination_chain_receive_observe"}),
        edges=(("first", "status"), ("status", "receive")),
        key="withdrawal",
    )


class Adopting(ScriptedExecutor):
    """Agrees that whatever it is shown is the node's action."""

    identifying_refs = ("reference",)

    async def adopt(self, context: ExecutionContext, reference: str) -> ExecutionResult:  # noqa: ARG002 - the contract's
        return answer(S.ACCEPTED, provider_refs={"reference": reference})


async def lines(desk: Desk) -> list[tuple[str, str, str, int]]:
    found = await desk.rows("SELECT * FROM qtg.ledger_lines ORDER BY id")
    transit = f"transit:{desk.request_id}"
    return [
        (
            row["entry_kind"],
            row["from_account"].replace(transit, "transit"),
            row["to_account"].replace(transit, "transit"),
            int(row["base_units"]),
        )
        for row in found
    ]


async def wrongs(desk: Desk) -> list[tuple[str, str]]:
    async with desk.engine.database.transaction() as transaction:
        findings = (await verify_ledger(transaction, desk.engine.settings.network_class)).findings
    return [(finding.node_key, finding.check) for finding in findings if finding.wrong]


async def follow(desk: Desk, **refs: str) -> None:
    desk.will("observe", desk_node(desk), answer(S.COMPLETED, provider_refs=refs))
    await desk.dispatch()
    await desk.make_due()
    await desk.observe()


def desk_node(desk: Desk) -> str:
    done = [key for method, key in desk.provider.calls if method == "observe"]
    return ("first", "status", "receive")[len(done)]


async def test_a_transfer_departs_with_its_intent_and_arrives_when_it_is_proven(desk: Desk) -> None:
    await desk.begin(transfer())
    await desk.dispatch()
    assert await lines(desk) == [("departure", HOME, "transit", 12_500_000)]
    await desk.observe()
    assert (await lines(desk))[1:] == [("arrival", "transit", AWAY, 12_500_000)]
    assert await wrongs(desk) == []


async def test_what_is_unknown_stays_in_transit(desk: Desk) -> None:
    desk.will("submit", "first", S.UNKNOWN)
    await desk.begin(transfer())
    await desk.dispatch()
    assert [line[0] for line in await lines(desk)] == ["departure"]
    assert await wrongs(desk) == []


@pytest.mark.parametrize("status", [S.NOT_SENT, S.REJECTED])
async def test_what_provably_did_not_leave_returns_and_a_new_attempt_departs_again(
    desk: Desk, status: ResultStatus
) -> None:
    desk.will("submit", "first", status)
    request_id = await desk.begin(transfer())
    await desk.dispatch()
    assert (await lines(desk))[1:] == [("return", "transit", HOME, 12_500_000)]
    if status is S.REJECTED:
        await retry_node(desk.engine, request_id, "first", actor="ada", reason="the limit was raised")
    await desk.make_due()
    await desk.dispatch()
    await desk.observe()
    assert [line[0] for line in await lines(desk)] == ["departure", "return", "departure", "arrival"]
    assert await wrongs(desk) == []


async def test_a_failure_that_is_proven_later_returns_the_money(desk: Desk) -> None:
    desk.will("observe", "first", S.FAILED)
    await desk.begin(transfer())
    await desk.dispatch()
    await desk.observe()
    assert [line[0] for line in await lines(desk)] == ["departure", "return"]


async def test_a_fee_within_the_amount_is_taken_on_the_way_and_the_rest_arrives(desk: Desk) -> None:
    await desk.begin(withdrawal())
    await follow(desk)
    await follow(desk, tx_hash="0xa", withdrawal_fee="0.5", withdrawal_amount="12")
    assert (await lines(desk))[1:] == [("withheld", "transit", "fee:venue_a", 500_000)]
    await follow(desk, received_amount="11.9")
    assert (await lines(desk))[2:] == [
        ("arrival", "transit", HOME, 11_900_000),
        ("shortfall", "transit", "fee:on the way", 100_000),
    ]
    assert await desk.request_state() == "COMPLETED"
    assert await wrongs(desk) == []


async def test_a_fee_beside_the_amount_is_charged_to_the_venue_account(desk: Desk) -> None:
    await desk.begin(withdrawal())
    await follow(desk)
    await follow(desk, tx_hash="0xa", withdrawal_fee="0.5", withdrawal_amount="12.5")
    await follow(desk, received_amount="12.5")
    assert (await lines(desk))[1:] == [
        ("charge", "venue:venue_a", "fee:venue_a", 500_000),
        ("arrival", "transit", HOME, 12_500_000),
    ]


async def test_a_withdrawal_that_the_venue_gave_back_returns(desk: Desk) -> None:
    await desk.begin(withdrawal())
    await follow(desk)
    desk.will("observe", "status", answer(S.FAILED, error_code="WITHDRAWAL_CANCELLED"))
    await desk.dispatch()
    await desk.observe()
    assert [line[0] for line in await lines(desk)] == ["departure", "return"]
    assert await wrongs(desk) == []


@pytest.mark.parametrize("reported", ["much", "1e3", "-1", "12.1234567", "9" * 60])
async def test_an_amount_that_cannot_be_read_stops_nobody_and_is_found(desk: Desk, reported: str) -> None:
    await desk.begin(withdrawal())
    await follow(desk)
    await follow(desk, tx_hash="0xa")
    await follow(desk, received_amount=reported)
    assert await desk.request_state() == "COMPLETED"
    assert await wrongs(desk) == [("first", "COMPLETED with money in transit")]


async def test_what_is_adopted_departs_like_what_was_sent(desk: Desk, executors: ExecutorRegistry) -> None:
    executors.register("exec.local.adopting", Adopting(desk.provider))
    plan = plan_of(node("first", executor="exec.local.adopting", config={**TERMS, "account": "treasury"}))
    request_id = await desk.begin(plan)
    await adopt(desk.engine, request_id, "first", "0xbeef", actor="ada", reason="sent from the wallet")
    await desk.observe()
    assert await lines(desk) == [
        ("departure", HOME, "transit", 12_500_000),
        ("arrival", "transit", AWAY, 12_500_000),
    ]
    assert await wrongs(desk) == []


async def test_lines_cannot_be_changed_or_unbalanced(desk: Desk) -> None:
    await desk.begin(transfer())
    await desk.dispatch()
    for forbidden in (
        "UPDATE qtg.ledger_lines SET base_units = 1",
        "DELETE FROM qtg.ledger_lines",
        (
            "INSERT INTO qtg.ledger_lines (request_id, request_node_id, attempt_no, entry_kind, from_account,"
            " to_account, asset, decimals, base_units)"
            " SELECT request_id, request_node_id, attempt_no, 'gas', 'a', 'b', asset, 6, -1 FROM qtg.ledger_lines"
        ),
    ):
        with pytest.raises(DBAPIError, match=r"append-only|moves_something"):
            await desk.sql(forbidden)


@pytest.mark.parametrize(
    ("trigger", "table", "submit", "found"),
    [
        ("ledger_departure", "movement_node_attempts", S.ACCEPTED, "COMPLETED without its departure"),
        ("ledger_outcome", "movement_request_nodes", S.REJECTED, "FAILED with money in transit"),
        ("ledger_outcome", "movement_request_nodes", S.ACCEPTED, "COMPLETED with money in transit"),
    ],
)
async def test_a_posting_that_was_left_out_is_found(
    desk: Desk, trigger: str, table: str, submit: ResultStatus, found: str
) -> None:
    await desk.sql(f"ALTER TABLE qtg.{table} DISABLE TRIGGER {trigger}")
    try:
        desk.will("submit", "first", submit)
        await desk.begin(transfer())
        await desk.dispatch()
        await desk.observe()
        assert await wrongs(desk) == [("first", found)]
    finally:
        await desk.sql(f"ALTER TABLE qtg.{table} ENABLE TRIGGER {trigger}")


async def test_what_cannot_be_known_is_named_and_not_guessed(desk: Desk) -> None:
    await desk.begin(plan_of(node("first")))
    await desk.dispatch()
    await desk.observe()
    async with desk.engine.database.transaction() as transaction:
        report = await verify_ledger(transaction, desk.engine.settings.network_class)
    [finding] = report.findings
    assert (finding.wrong, finding.check) == (False, "not in the ledger")
    assert finding.detail == "the node names no asset and amount"
    assert await lines(desk) == []
