"""Writing the work order of a node: drift checked, references resolved, limits applied, the signer's request made."""

from __future__ import annotations

import hashlib
from typing import Any

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.contract import ExecutionContext, PreparedAction, SigningIntent, SignRequest
from qtg_dagster.domain.errors import ApprovalExpired, PlanDrift
from qtg_dagster.domain.plans import movement_hashes
from qtg_dagster.domain.refs import merge_provider_refs, resolve_config
from qtg_dagster.domain.risk import check_amount, check_destination
from qtg_dagster.domain.states import NodeState
from qtg_dagster.domain.work import Work
from qtg_dagster.inventory import Inventory


def check_drift(work: Work) -> None:
    """Raise `PlanDrift` unless what would run is, to the letter, what was approved."""
    hashes = movement_hashes(work.plan, work.intent, work.input_params, work.resolved_bindings)
    if hashes.compiled_plan != work.compiled_plan_hash:
        raise PlanDrift("the compiled plan differs from the one that was approved")
    if hashes.approval != work.approval_digest:
        raise PlanDrift("timeouts, limits or fee ceilings differ from the ones that were approved")


def check_approval(work: Work) -> None:
    """Raise `ApprovalExpired` when what was approved was to begin earlier; by the database's clock."""
    expires_at = work.approval_expires_at
    if expires_at is not None and work.database_now >= expires_at:
        raise ApprovalExpired(
            f"the approval was valid until {expires_at:%Y-%m-%d %H:%M:%S} UTC; order the movement anew"
        )


def idempotency_key(node_id: str, attempt_no: int) -> str:
    """The key of one attempt: 32 hex digits, the same whoever computes it, accepted by every venue's client id."""
    return hashlib.sha256(f"qtg:{node_id}:{attempt_no}".encode()).hexdigest()[:32]


def build_execution_context(work: Work, *, attempt_no: int) -> ExecutionContext:
    """The work order for one attempt; raises `ConfigRefResolutionError` for a reference without a value."""
    completed = {key: node for key, node in work.siblings.items() if node.state is NodeState.COMPLETED}
    before = sorted(work.plan.predecessors()[work.node.node_key] & completed.keys())
    return ExecutionContext(
        request_id=work.claim.request_id,
        request_node_id=work.claim.node_id,
        compiled_plan_hash=work.compiled_plan_hash,
        template_key=work.plan.template_key,
        template_version=work.template_version,
        node_key=work.node.node_key,
        node_kind=work.node.node_kind,
        action_type=work.node.action_type,
        attempt_no=attempt_no,
        intent=work.intent,
        input_params=work.input_params,
        resolved_bindings=work.resolved_bindings,
        risk_controls=work.plan.risk_document,
        prior_artifacts=tuple({"node_key": key, **completed[key].artifacts} for key in before),
        node_config=resolve_config(
            work.node.config,
            intent=work.intent,
            input_params=work.input_params,
            completed_refs={key: node.refs for key, node in completed.items()},
        ),
        provider_context=merge_provider_refs({key: completed[key].refs for key in before}),
        timeout_policy=work.node.timeout_policy,
        idempotency_key=idempotency_key(work.claim.node_id, attempt_no),
        node_refs=work.provider_refs,
        prepared=work.prepared,
        started_at=work.started_at,
    )


def check_limits(work: Work, config: dict[str, Any], inventory: Inventory) -> Amount | None:
    """Raise `RiskControlViolated` when a node, with its references resolved, would leave the template's limits.

    Gives the amount that it moves, if it moves one; the asset's key stands in the config.

    Checked again here because `$ref` values are known only now: what an earlier node reported must not carry an
    amount or a destination past the limits. An amount without an asset cannot be judged and is refused too, with
    `InvalidInput`.
    """
    controls = work.plan.risk_controls
    where = f"nodes.{work.node.node_key}.config"
    amount = None
    if "amount" in config and work.node.has_side_effect:
        asset = inventory.asset(str(config.get("asset", "")), field=f"{where}.asset")
        amount = Amount.parse(asset, str(config["amount"]), field=f"{where}.amount")
        check_amount(controls, amount, field=f"{where}.amount")
    if "destination" in config:
        check_destination(controls, str(config["destination"]), field=f"{where}.destination")
    return amount


def build_sign_request(
    context: ExecutionContext, prepared: PreparedAction, *, approval: dict[str, str] | None = None
) -> SignRequest:
    """What the signer is asked: this payload, for this intent, under this approval (see `approval_terms`)."""
    config = context.node_config
    chain = str(config.get("chain", ""))
    return SignRequest(
        request_id=context.request_id,
        request_node_id=context.request_node_id,
        signing_intent=SigningIntent(
            action=prepared.action_type,
            asset=str(config.get("asset", context.intent.get("asset", ""))),
            amount=str(config.get("amount", context.intent.get("amount", ""))),
            destination=str(config.get("destination", context.intent.get("destination", ""))),
            chain_family="evm" if chain.startswith("eip155:") else chain.split(":", 1)[0] or "evm",
            allowed_payload_hash=prepared.payload_hash,
        ),
        payload_format=prepared.payload_format,
        payload=prepared.payload,
        payload_hash=prepared.payload_hash,
        metadata={**context.input_params, **(approval or {}), "chain": chain, "attempt_no": context.attempt_no},
    )


def approval_terms(work: Work) -> dict[str, str]:
    """What was approved and until when that counts, for the signer to look at again."""
    terms = {"approval_digest": work.approval_digest}
    if work.approval_expires_at is not None:
        terms["approval_expires_at"] = work.approval_expires_at.isoformat()
    return terms
