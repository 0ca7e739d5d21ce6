"""A movement from an exchange over our account to another place, and a review in which all is well."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from qtg_dagster.domain.contract import HealthState
from qtg_dagster.domain.plans import Plan, movement_hashes
from qtg_dagster.domain.requests import LockedRequest, StoredPlan
from qtg_dagster.domain.review import Balance, FeeEstimate, Holding, LastHealth, Review, ReviewedNode, reviewed_nodes
from qtg_dagster.domain.signer_identity import SignerIdentity
from qtg_dagster.domain.states import NodeState, RequestState

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
CHAIN, OURS, THEIRS = "eip155:1", "0x" + "11" * 20, "0x" + "22" * 20
SIGNER = "signer.local.treasury"
VENUE_USDC, OUR_USDC, OUR_ETH = (
    Holding("venue_a", "main", "USDC"),
    Holding(CHAIN, OURS, "USDC"),
    Holding(CHAIN, OURS, "ETH"),
)


def sample_plan(**changes: Any) -> Plan:
    """withdraw -> receive -> transfer; the transfer moves the intent's amount, plus what `changes` say."""
    where = {"asset": "USDC", "chain": CHAIN}
    document: dict[str, Any] = {
        "template_key": "sample",
        "title": "sample",
        "parameters": [{"name": "amount", "type": "amount", "asset": "USDC"}],
        "risk_controls": {"hard_cap": "1000", "max_fee": "0.5", "destination_allowlist": [OURS, THEIRS]},
        "nodes": [
            {
                "node_key": "withdraw",
                "node_kind": "action",
                "action_type": "cex_withdrawal",
                "executor_key": "exec.cex.withdrawal_action",
                "config": {**where, "venue": "venue_a", "amount": "$param:amount", "destination": OURS},
            },
            {
                "node_key": "receive",
                "node_kind": "observe",
                "action_type": "destination_chain_receive_observe",
                "executor_key": "exec.evm.receive_observe",
                "config": {**where, "account": "treasury", "tx_hash": "$ref:withdraw.tx_hash"},
            },
            {
                "node_key": "transfer",
                "node_kind": "action",
                "action_type": "evm_transfer",
                "executor_key": "exec.evm.transfer",
                "signer_role": "treasury",
                "config": {**where, "account": "treasury", "amount": "$param:amount", "destination": THEIRS},
            },
        ],
        "edges": [
            {"from_node": "withdraw", "to_node": "receive"},
            {"from_node": "receive", "to_node": "transfer"},
        ],
        **changes,
    }
    return Plan.model_validate(document)


def request_of(plan: Plan, **changes: Any) -> LockedRequest:
    """A movement of 100 USDC that waits for approval."""
    values = {"amount": "100"}
    intent = {"asset": "USDC", "amount": "100", "destination": THEIRS}
    bindings = {f"executor:{node.node_key}": str(node.executor_key) for node in plan.nodes}
    bindings["signer:treasury"] = SIGNER
    hashes = movement_hashes(plan, intent, values, bindings)
    request = LockedRequest(
        request_id="r",
        network_class="sandbox",
        request_state=RequestState.PENDING_APPROVAL,
        intent=intent,
        input_params=values,
        resolved_bindings=bindings,
        compiled_plan_hash=hashes.compiled_plan,
        approval_digest=hashes.approval,
        expires_at=NOON,
        expired=False,
        callback_url=None,
        requested_by="ada",
        stored=StoredPlan(1, 1, plan, {}),
        node_states={node.node_key: NodeState.BLOCKED for node in plan.nodes},
        open_attempts={},
        approved_by=(),
        down=(),
    )
    return replace(request, **changes)


def review_of(request: LockedRequest | None = None, **changes: Any) -> Review:
    """All was read, and nothing speaks against it, but for what `changes` say."""
    request = request or request_of(sample_plan())
    nodes = tuple(replace(node, source=_source(node)) for node in reviewed_nodes(request))
    bound = set(request.resolved_bindings.values())
    enough = {OUR_USDC: Balance("0", NOON, live=True), OUR_ETH: Balance("1", NOON, live=True)}
    review = Review(
        request=request,
        nodes=nodes,
        reason="top up",
        scopes={node.key: ("network:sandbox", f"lane:{'cex' if node.key == 'withdraw' else 'evm'}") for node in nodes},
        breakers=[],
        velocity={},
        health={key: LastHealth(key, HealthState.HEALTHY, "", NOON) for key in bound},
        signers={SIGNER: SignerIdentity(SIGNER, OURS, OURS, registered=True)},
        balances={"venue_a": {VENUE_USDC: Balance("150", NOON, live=True)}, CHAIN: enough},
        fees={
            "withdraw": FeeEstimate(asset="USDC", amount="0.4", how="listed", on_top=False),
            "transfer": FeeEstimate(asset="ETH", amount="0.002", how="gas"),
        },
    )
    return replace(review, **changes)


def _source(node: ReviewedNode) -> Holding | None:
    return {"withdraw": VENUE_USDC, "transfer": OUR_USDC}.get(node.key)
