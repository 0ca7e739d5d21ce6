"""The movements of the cases: one small plan a lane."""

from __future__ import annotations

import itertools
from typing import Any

from qtg_dagster.domain.plans import NodeKind, ParameterSpec, ParameterType, Plan, PlanEdge, PlanNode, RiskControls
from tests.crash.boundaries import Lane
from tests.crash.provider.executor import KEY, SIGNER_KEY
from tests.crash.world import SandboxWorld

AMOUNT = ParameterSpec(name="amount", type=ParameterType.AMOUNT, asset="USDC")
HASH = ParameterSpec(name="tx_hash", type=ParameterType.TEXT)
BANK_TARGET = "vault"
#: So many different amounts: no limit is reached, however many movements a bench sees.
_AMOUNTS = 89


def plan_of(lane: Lane, account: str, world: SandboxWorld | None) -> Plan:
    """The plan that a lane's cases move; `account` is the case's own account at the bank."""
    if lane in (Lane.BANK, Lane.DESK):
        return _bank(account)
    assert world is not None
    where = {"asset": "USDC", "chain": world.world.chain}
    return {
        Lane.CEX_WITHDRAWAL: _withdrawal,
        Lane.CEX_DEPOSIT: _deposit,
        Lane.EVM_TRANSFER: _transfer,
        Lane.EVM_OBSERVE: _arrival,
    }[lane](world, where)


def values_of(lane: Lane, number: int, world: SandboxWorld | None) -> dict[str, Any]:
    """Parameters and bindings of a lane's nth movement."""
    if lane is Lane.CEX_DEPOSIT and world is not None:
        return {"parameters": {"tx_hash": world.deposits[number % len(world.deposits)]}}
    if lane is Lane.EVM_OBSERVE and world is not None:
        return {"parameters": {"tx_hash": world.receipts[number % len(world.receipts)]}}
    bindings = {"bank": SIGNER_KEY} if lane in (Lane.BANK, Lane.DESK) else {}
    return {"parameters": {"amount": f"{11 + number % _AMOUNTS}.5"}, "bindings": bindings}


def _node(
    key: str, kind: NodeKind, action_type: str, executor: str, role: str | None = None, **config: Any
) -> PlanNode:
    return PlanNode(
        node_key=key, node_kind=kind, action_type=action_type, executor_key=executor, signer_role=role, config=config
    )


def _plan(key: str, parameter: ParameterSpec, allowed: tuple[str, ...], *nodes: PlanNode) -> Plan:
    edges = tuple(
        PlanEdge(from_node=before.node_key, to_node=after.node_key) for before, after in itertools.pairwise(nodes)
    )
    controls = RiskControls(hard_cap="1000", destination_allowlist=allowed)
    return Plan(template_key=key, title=key, parameters=(parameter,), risk_controls=controls, nodes=nodes, edges=edges)


def _bank(account: str) -> Plan:
    config = {
        "venue": "bank",
        "chain": "bank:main",
        "account": account,
        "asset": "USDC",
        "amount": "$param:amount",
        "destination": BANK_TARGET,
    }
    nodes = [_node(key, NodeKind.ACTION, "bank_move", KEY, "bank", **config) for key in ("first", "second")]
    return _plan("crash_bank", AMOUNT, (BANK_TARGET,), *nodes)


def _withdrawal(world: SandboxWorld, where: dict[str, str]) -> Plan:
    treasury = world.world.treasury
    withdraw = _node(
        "withdraw",
        NodeKind.ACTION,
        "cex_withdrawal",
        "exec.cex.withdrawal_action",
        venue="venue_a",
        amount="$param:amount",
        destination=treasury,
        **where,
    )
    status = _node(
        "status",
        NodeKind.OBSERVE,
        "cex_withdrawal_status",
        "exec.cex.withdrawal_observe",
        venue="venue_a",
        withdrawal_id="$ref:withdraw.exchange_withdrawal_id",
        client_id="$ref:withdraw.withdrawal_client_id",
        **where,
    )
    return _plan("crash_withdrawal", AMOUNT, (treasury,), withdraw, status)


def _deposit(world: SandboxWorld, where: dict[str, str]) -> Plan:
    address = world.world.deposit_addresses["venue_b"]
    deposit = _node(
        "deposit",
        NodeKind.OBSERVE,
        "cex_deposit_status",
        "exec.cex.deposit_observe",
        venue="venue_b",
        tx_hash="$param:tx_hash",
        address=address,
        **where,
    )
    return _plan("crash_deposit", HASH, (), deposit)


def _transfer(world: SandboxWorld, where: dict[str, str]) -> Plan:
    target = world.world.deposit_addresses["venue_b"]
    transfer = _node(
        "transfer",
        NodeKind.ACTION,
        "evm_transfer",
        "exec.evm.transfer",
        "treasury",
        account="treasury",
        amount="$param:amount",
        destination=target,
        **where,
    )
    return _plan("crash_transfer", AMOUNT, (target,), transfer)


def _arrival(world: SandboxWorld, where: dict[str, str]) -> Plan:
    receive = _node(
        "receive",
        NodeKind.OBSERVE,
        "destination_chain_receive_observe",
        "exec.evm.receive_observe",
        account="treasury",
        tx_hash="$param:tx_hash",
        **where,
    )
    finality = _node(
        "finality",
        NodeKind.OBSERVE,
        "destination_chain_finality_observe",
        "exec.evm.finality_observe",
        chain=where["chain"],
        tx_hash="$param:tx_hash",
    )
    return _plan("crash_arrival", HASH, (), receive, finality)
