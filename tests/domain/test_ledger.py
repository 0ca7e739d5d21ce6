"""Which lines a plan's nodes post: departures from what a node names, and what proves that it came where."""

from __future__ import annotations

import itertools

import pytest

from qtg_dagster.domain.amounts import Asset
from qtg_dagster.domain.ledger import Departure, EntryKind, NotPosted, entries_of, followers
from qtg_dagster.domain.plans import NodeKind, Plan, PlanEdge, PlanNode

CHAIN = "eip155:1"
OURS, DEPOSIT, STRANGER = "0x" + "11" * 20, "0x" + "22" * 20, "0x" + "33" * 20


class Names:
    """An inventory of one account, one venue and two assets."""

    def asset(self, key: str) -> Asset | None:
        return {"USDC": Asset("USDC", 6), "ETH": Asset("ETH", 18)}.get(key)

    def address(self, chain: str, account: str) -> str | None:
        return OURS if (chain, account) == (CHAIN, "treasury") else None

    def venue_at(self, chain: str, address: str) -> str | None:
        return "venue_b" if (chain, address) == (CHAIN, DEPOSIT) else None

    def native(self, chain: str) -> str | None:
        return "ETH" if chain == CHAIN else None


def action(key: str, **config: object) -> PlanNode:
    return PlanNode(
        node_key=key, node_kind=NodeKind.ACTION, action_type="act", executor_key="exec.local.act", config=config
    )


def look(key: str, action_type: str, **config: object) -> PlanNode:
    return PlanNode(
        node_key=key, node_kind=NodeKind.OBSERVE, action_type=action_type, executor_key="exec.local.see", config=config
    )


def plan_of(*nodes: PlanNode) -> Plan:
    edges = [PlanEdge(from_node=one.node_key, to_node=other.node_key) for one, other in itertools.pairwise(nodes)]
    return Plan(template_key="sample", title="sample", nodes=nodes, edges=tuple(edges))


def departure(plan: Plan, key: str = "go") -> Departure:
    node = plan.node(key)
    found = entries_of(plan, node, {**node.config, "amount": "2.5"}, Names())
    assert isinstance(found, Departure)
    return found


def arrivals(found: Departure) -> list[tuple[str, str, str | None]]:
    return [(each.node, each.account, each.amount) for each in found.follow_ups if each.post is EntryKind.ARRIVAL]


TRANSFER = action("go", asset="USDC", amount="2.5", chain=CHAIN, account="treasury", destination=STRANGER)


def test_a_transfer_leaves_its_account_and_is_its_own_proof_of_arrival() -> None:
    found = departure(plan_of(TRANSFER))
    assert (found.source, found.asset, found.units) == (f"chain:{CHAIN}:{OURS}", "USDC", "2500000")
    assert arrivals(found) == [("go", f"chain:{CHAIN}:{STRANGER}", None)]


def test_gas_is_the_chains_own_coin_whether_it_succeeded_or_not() -> None:
    gas = [each for each in departure(plan_of(TRANSFER)).follow_ups if each.post is EntryKind.GAS]
    assert {(each.state, each.asset, each.decimals, each.account) for each in gas} == {
        ("COMPLETED", "ETH", 18, f"fee:{CHAIN}"),
        ("FAILED", "ETH", 18, f"fee:{CHAIN}"),
    }


def test_the_last_that_looks_proves_the_arrival_when_nobody_reports_an_amount() -> None:
    finality = look("finality", "destination_chain_finality_observe", chain=CHAIN, tx_hash="$ref:go.tx_hash")
    assert arrivals(departure(plan_of(TRANSFER, finality))) == [("finality", f"chain:{CHAIN}:{STRANGER}", None)]


def test_our_deposit_address_is_the_venues_account() -> None:
    plan = plan_of(TRANSFER.model_copy(update={"config": {**TRANSFER.config, "destination": DEPOSIT}}))
    assert arrivals(departure(plan)) == [("go", "venue:venue_b", None)]


def test_two_effects_in_a_row_each_have_their_own_arrival() -> None:
    where = {"asset": "USDC", "chain": CHAIN}
    plan = plan_of(
        action("withdraw", venue="venue_a", amount="2.5", destination=OURS, **where),
        look("status", "cex_withdrawal_status", venue="venue_a", withdrawal_id="$ref:withdraw.id", **where),
        look("receive", "destination_chain_receive_observe", account="treasury", tx_hash="$ref:status.tx", **where),
        TRANSFER.model_copy(update={"config": {**TRANSFER.config, "amount": "$ref:receive.received_amount"}}),
        look(
            "match",
            "cex_deposit_status",
            venue="venue_b",
            tx_hash="$ref:go.tx_hash",
            amount="$ref:receive.received_amount",
            **where,
        ),
    )
    assert [node.node_key for node in followers(plan, "withdraw")] == ["status", "receive"]
    assert [node.node_key for node in followers(plan, "go")] == ["match"]
    withdrawn = departure(plan, "withdraw")
    assert withdrawn.source == "venue:venue_a"
    assert arrivals(withdrawn) == [("receive", f"chain:{CHAIN}:{OURS}", "received_amount")]
    assert [each.post for each in withdrawn.follow_ups] == [EntryKind.RETURN, EntryKind.WITHHELD, EntryKind.ARRIVAL]
    assert arrivals(departure(plan)) == [("match", "venue:venue_b", "credited_amount")]


@pytest.mark.parametrize(
    "missing",
    [{"asset": "DOGE"}, {"asset": None}, {"amount": "1.2345678"}, {"amount": "0"}, {"amount": 5}, {"account": "x"}],
)
def test_what_a_node_does_not_say_is_not_guessed(missing: dict[str, object]) -> None:
    assert isinstance(entries_of(plan_of(TRANSFER), TRANSFER, {**TRANSFER.config, **missing}, Names()), NotPosted)
