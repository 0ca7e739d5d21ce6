"""From an order and a template to the movement that is stored: values, bindings, hashes."""

from __future__ import annotations

from typing import Any

from qtg_dagster.domain.breakers import node_scopes
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Plan, movement_hashes
from qtg_dagster.domain.requests import NewRequest, StoredPlan
from qtg_dagster.engine.orders import (
    MovementOrder,
    check_static_limits,
    read_intent,
    read_parameters,
    static_config,
)
from qtg_dagster.engine.parts import Engine
from qtg_dagster.executors.contract import serialization_key


def compile_order(engine: Engine, order: MovementOrder, stored: StoredPlan) -> NewRequest:
    """The movement that an order asks for; raises `InvalidInput` for the first value the template does not take."""
    plan = stored.plan
    values = read_parameters(plan, order.parameters, engine.inventory)
    intent = read_intent(plan, order, values)
    configs = {node.node_key: static_config(plan, node.node_key, intent, values) for node in plan.nodes}
    check_static_limits(plan, configs)
    bindings = _bind(engine, order, plan, configs)
    hashes = movement_hashes(plan, intent, values, bindings)
    return NewRequest(
        network_class=engine.settings.network_class,
        stored=stored,
        intent=intent,
        input_params=values,
        resolved_bindings=bindings,
        serialization_keys={
            node.node_key: serialization_key(engine.executors.resolve(node.executor_key), configs[node.node_key])
            for node in plan.nodes
            if node.executor_key is not None
        },
        scopes=_scopes(engine, plan, configs),
        compiled_plan_hash=hashes.compiled_plan,
        approval_digest=hashes.approval,
        body_hash=order.body_hash(),
        requested_by=order.requested_by,
        reason=order.reason,
        ttl_seconds=order.approval_ttl_seconds or engine.settings.approval_ttl_seconds,
        idempotency_key=order.idempotency_key,
        callback_url=None
        if order.callback_url is None
        else engine.settings.receiver_policy.read(order.callback_url).url,
    )


def _scopes(engine: Engine, plan: Plan, configs: dict[str, dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """What a breaker must stand on to hold each node; one that only looks is never held: it sees what is in flight."""
    chains = {key: account.chain for key, account in engine.inventory.accounts.items()}
    network_class = engine.settings.network_class
    return {
        node.node_key: node_scopes(network_class, node.executor_key, configs[node.node_key], chains)
        if node.has_side_effect
        else ()
        for node in plan.nodes
    }


def _bind(engine: Engine, order: MovementOrder, plan: Plan, configs: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Which executor does each node and which signer signs for each role; an account's own signer is the default."""
    for role in order.bindings:
        if role not in plan.signer_roles():
            known = ", ".join(sorted(plan.signer_roles())) or "none"
            raise InvalidInput(f"bindings.{role}", "the template has no such signer role", f"Use: {known}.")
    bindings: dict[str, str] = {}
    for node in plan.nodes:
        if node.executor_key is not None:
            engine.executors.resolve(node.executor_key)
            bindings[f"executor:{node.node_key}"] = node.executor_key
        if node.signer_role is None:
            continue
        signer = order.bindings.get(node.signer_role) or _account_signer(engine, configs[node.node_key])
        if signer is None or signer not in engine.signers:
            known = ", ".join(key for key, _ in engine.signers.items()) or "none"
            raise InvalidInput(
                f"bindings.{node.signer_role}", f"{signer or 'nothing'} is not a registered signer", f"Use: {known}."
            )
        bindings[f"signer:{node.signer_role}"] = signer
    return bindings


def _account_signer(engine: Engine, config: dict[str, Any]) -> str | None:
    account = config.get("account")
    return engine.inventory.account(account).signer if isinstance(account, str) else None
