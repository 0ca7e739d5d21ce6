"""Sample templates for the sandbox: from exchange to exchange over the chain, and two transfers on the chain."""

from __future__ import annotations

import itertools

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.plans import (
    NodeKind,
    ParameterSpec,
    ParameterType,
    Plan,
    PlanEdge,
    PlanNode,
    RiskControls,
    TimeoutPolicy,
)
from qtg_dagster.inventory import Inventory

ASSET = "USDC"
ACCOUNT = "treasury"
SIGNER_ROLE = "treasury"
SOURCE, TARGET = "venue_a", "venue_b"
HARD_CAP = "10000"
_AMOUNT = ParameterSpec(name="amount", type=ParameterType.AMOUNT, asset=ASSET, description="how much, in USDC")
_WITHDRAWAL_SECONDS, _CHAIN_SECONDS, _DEPOSIT_SECONDS = 1800, 600, 1800


def is_sandbox(inventory: Inventory) -> bool:
    """Whether the inventory has what the sample templates name."""
    return {SOURCE, TARGET} <= inventory.venues.keys() and ACCOUNT in inventory.accounts


def sample_plans(inventory: Inventory) -> tuple[Plan, ...]:
    """The templates, with the inventory's own addresses as the only destinations.

    Raises `ConfigurationError` when the inventory is not the sandbox's.
    """
    if not is_sandbox(inventory):
        raise ConfigurationError(f"the sample templates need venues {SOURCE}, {TARGET} and account {ACCOUNT}")
    return (_exchange_to_exchange(inventory), _chain_transfer(inventory), _chain_transfer_with_check(inventory))


def _exchange_to_exchange(inventory: Inventory) -> Plan:
    account = inventory.account(ACCOUNT)
    chain, target = account.chain, _target_address(inventory)
    where = {"asset": ASSET, "chain": chain}
    withdraw = PlanNode(
        node_key="withdraw",
        node_kind=NodeKind.ACTION,
        action_type="cex_withdrawal",
        executor_key="exec.cex.withdrawal_action",
        config={"venue": SOURCE, **where, "amount": "$param:amount", "destination": account.address},
    )
    withdraw_observe = PlanNode(
        node_key="withdraw_observe",
        node_kind=NodeKind.OBSERVE,
        action_type="cex_withdrawal_status",
        executor_key="exec.cex.withdrawal_observe",
        config={
            "venue": SOURCE,
            **where,
            "withdrawal_id": "$ref:withdraw.exchange_withdrawal_id",
            "client_id": "$ref:withdraw.withdrawal_client_id",
        },
        timeout_policy=TimeoutPolicy(observe_seconds=_WITHDRAWAL_SECONDS),
    )
    receive = PlanNode(
        node_key="receive",
        node_kind=NodeKind.OBSERVE,
        action_type="destination_chain_receive_observe",
        executor_key="exec.evm.receive_observe",
        config={**where, "account": ACCOUNT, "tx_hash": "$ref:withdraw_observe.tx_hash"},
        timeout_policy=TimeoutPolicy(observe_seconds=_CHAIN_SECONDS),
    )
    nodes = (
        withdraw,
        withdraw_observe,
        receive,
        _finality(chain, "receive"),
        _transfer(chain, "$ref:receive.received_amount", target),
        _deposit_match(chain, target),
    )
    return Plan(
        template_key="cex_chain_cex_usdc",
        title="USDC from one exchange to another over the treasury's account",
        description="Withdraws from venue_a, waits until it is final on chain, and deposits what arrived at venue_b.",
        parameters=(_AMOUNT,),
        risk_controls=RiskControls(hard_cap=HARD_CAP, destination_allowlist=(account.address, target)),
        nodes=nodes,
        edges=_chain_of(nodes),
    )


def _chain_transfer(inventory: Inventory) -> Plan:
    chain, target = inventory.account(ACCOUNT).chain, _target_address(inventory)
    nodes = (_transfer(chain, "$param:amount", target), _finality(chain, "transfer"))
    return Plan(
        template_key="chain_transfer_usdc",
        title="USDC from the treasury's account to venue_b",
        parameters=(_AMOUNT,),
        risk_controls=RiskControls(hard_cap=HARD_CAP, destination_allowlist=(target,)),
        nodes=nodes,
        edges=_chain_of(nodes),
    )


def _chain_transfer_with_check(inventory: Inventory) -> Plan:
    chain, target = inventory.account(ACCOUNT).chain, _target_address(inventory)
    check = PlanNode(
        node_key="manual_check",
        node_kind=NodeKind.MANUAL,
        action_type="operator_check",
        config={"instruction": "Confirm with venue_b that deposits are open.", "destination": target},
    )
    nodes = (check, _transfer(chain, "$param:amount", target), _finality(chain, "transfer"))
    return Plan(
        template_key="chain_transfer_manual_check",
        title="USDC from the treasury's account to venue_b, after a person has looked",
        parameters=(_AMOUNT,),
        risk_controls=RiskControls(hard_cap=HARD_CAP, destination_allowlist=(target,)),
        nodes=nodes,
        edges=_chain_of(nodes),
    )


def _transfer(chain: str, amount: str, destination: str) -> PlanNode:
    return PlanNode(
        node_key="transfer",
        node_kind=NodeKind.ACTION,
        action_type="evm_transfer",
        executor_key="exec.evm.transfer",
        signer_role=SIGNER_ROLE,
        config={"chain": chain, "asset": ASSET, "account": ACCOUNT, "amount": amount, "destination": destination},
        timeout_policy=TimeoutPolicy(observe_seconds=_CHAIN_SECONDS),
    )


def _finality(chain: str, of_node: str) -> PlanNode:
    return PlanNode(
        node_key="finality",
        node_kind=NodeKind.OBSERVE,
        action_type="destination_chain_finality_observe",
        executor_key="exec.evm.finality_observe",
        config={"chain": chain, "tx_hash": f"$ref:{of_node}.tx_hash"},
        timeout_policy=TimeoutPolicy(observe_seconds=_CHAIN_SECONDS),
    )


def _deposit_match(chain: str, address: str) -> PlanNode:
    return PlanNode(
        node_key="deposit_match",
        node_kind=NodeKind.OBSERVE,
        action_type="cex_deposit_status",
        executor_key="exec.cex.deposit_observe",
        config={
            "venue": TARGET,
            "asset": ASSET,
            "chain": chain,
            "tx_hash": "$ref:transfer.tx_hash",
            "address": address,
            "amount": "$ref:receive.received_amount",
        },
        timeout_policy=TimeoutPolicy(observe_seconds=_DEPOSIT_SECONDS),
    )


def _chain_of(nodes: tuple[PlanNode, ...]) -> tuple[PlanEdge, ...]:
    return tuple(
        PlanEdge(from_node=before.node_key, to_node=after.node_key) for before, after in itertools.pairwise(nodes)
    )


def _target_address(inventory: Inventory) -> str:
    chain = inventory.account(ACCOUNT).chain
    address = inventory.venue(TARGET).deposit_addresses.get(chain)
    if address is None:
        raise ConfigurationError(f"venues.{TARGET}.deposit_addresses: nothing for {chain}")
    return address
