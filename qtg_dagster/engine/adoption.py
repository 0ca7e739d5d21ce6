"""Adopting what exists already: a chain transaction or a venue's withdrawal becomes what a node did.

`submit` is never called for it. The executor looks first, outside any transaction; then the node is locked, everything
is judged again, and the moves that the adoption amounts to are written in one commit.
"""

from __future__ import annotations

from qtg_dagster.domain.actions import Action
from qtg_dagster.domain.canonical import canonical_json, json_problem
from qtg_dagster.domain.contract import ADOPTED_REF, ExecutionContext, ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.domain.requests import Adoption, Decision, FoundNode, LockedRequest
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.engine.books import ledger_document
from qtg_dagster.engine.context import build_execution_context, check_drift, check_limits, idempotency_key
from qtg_dagster.engine.interventions import go_on_if_freed, make_ready_again
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.permission import check_permitted, lock_for, standing_of
from qtg_dagster.engine.ports import Decisions
from qtg_dagster.executors.contract import Adopts

PAYLOAD_FORMAT = "qtg.adopted.v1"


async def adopt(
    engine: Engine, request_id: str, node_key: str, reference: str, *, actor: str, reason: str
) -> ExecutionResult:
    """Attach what `reference` names, a transaction hash or a venue's id, to a READY, UNKNOWN or FAILED node.

    The node is SUBMITTED afterwards and observed like any other; a FAILED one is retried and adopts in one commit.
    Returns what the executor saw. Raises `NotFound`; `InvalidInput` for an empty reference; `Conflict` when the thing
    is not this node's action, could not be looked at, belongs to another node, or the node may not adopt now.
    """
    reference = reference.strip()
    if not reference or json_problem(reference):
        raise InvalidInput("reference", "is empty or no plain text", "Give the transaction's hash or the venue's id.")
    before, context = await _look_at_node(engine, request_id, node_key)
    executor = engine.executors.resolve(_executor_key(context))
    if not isinstance(executor, Adopts):
        raise Conflict(f"{node_key} is done by {_executor_key(context)}, which can adopt nothing")
    seen = await executor.adopt(context, reference)
    _check_answer(node_key, reference, seen)
    async with engine.store.deciding() as tx:
        request = await lock_for(engine, tx, request_id, Action.ADOPT, node_key)
        await tx.lock_node(before.node_id)
        await _check_still_fits(tx, request, node_key, before, seen, executor.identifying_refs)
        ledger = ledger_document(
            request.stored.plan,
            node_key,
            context.node_config,
            engine.inventory,
            intent=request.intent,
            input_params=request.input_params,
        )
        await _write(tx, request, node_key, before, reference, seen, ledger, actor=actor, reason=reason)
        details = {"node_key": node_key, "reference": reference, "reason": reason, "evidence": seen.evidence}
        await tx.decide(request, Decision(actor, "adopt", details))
    return seen


async def _look_at_node(engine: Engine, request_id: str, node_key: str) -> tuple[FoundNode, ExecutionContext]:
    async with engine.store.deciding() as tx:
        request = await tx.read_request(request_id, engine.settings.network_class)
        check_permitted(standing_of(engine, request), request, Action.ADOPT, node_key)
        found = await tx.find_node(request, node_key)
    works = await engine.store.load_works([found.claim(request.request_id)])
    if not works:
        raise NotFound(f"node {node_key} is gone, or its plan cannot be read")
    [work] = works
    check_drift(work)
    # An UNKNOWN node's present attempt is what is looked for; any other adopts as an attempt of its own.
    same = found.node_state is NodeState.UNKNOWN
    context = build_execution_context(work, attempt_no=work.attempt_no if same else work.attempt_no + 1)
    check_limits(work, context.node_config, engine.inventory)
    return found, context if same else context.model_copy(update={"prepared": None, "node_refs": {}})


def _executor_key(context: ExecutionContext) -> str:
    return context.resolved_bindings[f"executor:{context.node_key}"]


def _check_answer(node_key: str, reference: str, seen: ExecutionResult) -> None:
    problem = None
    if seen.status is not ResultStatus.ACCEPTED:
        problem = redact_text(seen.error_message or f"the executor answered {seen.status}")
    elif not seen.evidence:
        problem = "the executor accepted it without evidence, which the contract does not allow"
    elif json_problem(seen.provider_refs):
        problem = "the executor's refs cannot be stored"
    if problem is not None:
        again = "; try again" if seen.status is ResultStatus.UNKNOWN else ""
        raise Conflict(f"{node_key} does not adopt {reference}: {problem}{again}")


async def _check_still_fits(
    tx: Decisions,
    request: LockedRequest,
    node_key: str,
    before: FoundNode,
    seen: ExecutionResult,
    identifying: tuple[str, ...],
) -> None:
    now = await tx.find_node(request, node_key)
    if (now.node_state, now.attempt_no) != (before.node_state, before.attempt_no):
        raise Conflict(f"{node_key} went from {before.node_state} to {now.node_state} meanwhile; look again")
    if now.node_state is NodeState.READY and now.being_worked:
        # It may be signing at this moment; what it signs must not be left without a node that knows of it.
        raise Conflict(f"{node_key} is being dispatched at this moment; look again")
    holder = await tx.holder_of(now.node_id, seen.provider_refs, identifying)
    if holder is not None:
        raise Conflict(f"{node_key} cannot adopt what is {holder}'s already")
    nonce = await tx.nonce_in_the_way(now.node_id, seen.provider_refs.get("nonce"))
    if nonce is not None:
        raise Conflict(
            f"{node_key} has signed nonce {nonce}, which nothing else may use: adopt a transaction with that nonce"
        )


async def _write(
    tx: Decisions,
    request: LockedRequest,
    node_key: str,
    before: FoundNode,
    reference: str,
    seen: ExecutionResult,
    ledger: str | None,
    *,
    actor: str,
    reason: str,
) -> None:
    if before.node_state is NodeState.FAILED:
        await make_ready_again(tx, request, node_key, actor=actor, reason=f"adopts {reference}: {reason}")
    refs = {**seen.provider_refs, ADOPTED_REF: reference}
    adoption = Adoption(
        node_id=before.node_id,
        prepared=PreparedAction.of(
            action_type=request.stored.plan.node(node_key).action_type,
            payload_format=PAYLOAD_FORMAT,
            payload=canonical_json({"reference": reference}),
            provider_refs=refs,
        ),
        idempotency_key=idempotency_key(before.node_id, before.attempt_no + 1),
        refs=refs,
        facts={"adopted": reference, "reason": reason, "evidence": seen.evidence, "provider_refs": seen.provider_refs},
        actor=actor,
        ledger=ledger,
    )
    await tx.write_adoption(adoption)
    if request.request_state in (RequestState.APPROVED, RequestState.WAITING_MANUAL_ACTION):
        await tx.set_request_state(request, RequestState.EXECUTING)
    else:
        await go_on_if_freed(tx, request)
    await tx.wake("observe")
