"""From READY to the provider: preflight, prepare, sign, write ahead, submit, record.

`submit` is called once per attempt, and only by the process that has just committed the intent. Whatever happens
to that process afterwards, nobody calls it again: a node found in SUBMITTING goes to recovery.
"""

from __future__ import annotations

import asyncio

import structlog

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.canonical import json_problem
from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    PreparedAction,
    ResultStatus,
    SignedPayload,
    payload_hash,
)
from qtg_dagster.domain.errors import (
    ApprovalExpired,
    ConfigRefResolutionError,
    InvalidInput,
    NotFound,
    PlanDrift,
    QtgError,
    RiskControlViolated,
    SigningRefused,
    StaleClaim,
)
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.observation import clamp_hint
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.domain.risk import check_fee
from qtg_dagster.domain.states import DISPATCHABLE_REQUEST_STATES, NodeState
from qtg_dagster.domain.work import Intent, Move, Work
from qtg_dagster.engine.books import ledger_document
from qtg_dagster.engine.context import (
    approval_terms,
    build_execution_context,
    build_sign_request,
    check_approval,
    check_drift,
    check_limits,
)
from qtg_dagster.engine.outcomes import move_for_submit
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Runner
from qtg_dagster.executors.contract import EstimatesFees, Executor
from qtg_dagster.faults import FaultPoint, fault_point

log = structlog.get_logger("qtg.engine")

#: Seconds a node that could not be started waits, by how often it was put off for that reason; the last one repeats.
DEFERRALS = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)

#: Refused for good before anything happened, with the code an operator sees.
_REFUSALS: tuple[tuple[type[QtgError], str], ...] = (
    (ConfigRefResolutionError, "CONFIG_REF_UNRESOLVED"),
    (PlanDrift, "PLAN_DRIFT"),
    (ApprovalExpired, "APPROVAL_EXPIRED"),
    (RiskControlViolated, "RISK_CONTROL_VIOLATED"),
    (SigningRefused, "SIGNING_REFUSED"),
    (InvalidInput, "INVALID_INPUT"),
)
#: Refusals that an auditor asks for: somebody or something asked for what it must not.
_AUDITED = frozenset({"APPROVAL_EXPIRED", "PLAN_DRIFT", "RISK_CONTROL_VIOLATED", "SIGNING_REFUSED"})


class _NotNow(Exception):
    """The node cannot be started at the moment; nothing was sent."""

    def __init__(self, code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class _PreflightRefused(QtgError):
    """An executor's preflight said no."""

    def __init__(self, result: ExecutionResult) -> None:
        super().__init__(result.error_message or "preflight refused")
        self.result = result


async def dispatch_ready_nodes(engine: Engine, runner: Runner, batch: int = 1) -> int:
    """One pass: claim up to `batch` READY nodes and drive each to its submit; returns how many."""
    claims = await engine.store.claim_ready(runner, batch)
    if claims:
        fault_point(FaultPoint.CLAIM_COMMIT)
    await asyncio.gather(*(dispatch_node(engine, work) for work in await engine.store.load_works(claims)))
    return len(claims)


async def dispatch_node(engine: Engine, work: Work) -> None:
    """Drive one claimed node; every way out of here has either moved the node or given it back."""
    if work.node_state is not NodeState.READY or work.request_state not in DISPATCHABLE_REQUEST_STATES:
        await engine.store.release([work.claim])
        return
    try:
        await _start(engine, work)
    except StaleClaim as stale:
        log.info("not started", node=work.claim.node_id, reason=str(stale))
        # Taken over, or its movement no longer starts nodes: then it must not stay ours for as long as we live.
        await engine.store.release([work.claim])


async def _start(engine: Engine, work: Work) -> None:
    try:
        context, intent, executor = await _make_ready(engine, work)
    except _PreflightRefused as refusal:
        code = refusal.result.error_code or "PREFLIGHT_REFUSED"
        await engine.outcomes.record(work, _refused(code, str(refusal), dict(refusal.result.evidence)))
    except _NotNow as later:
        await engine.outcomes.record(work, _deferred(work, later))
    except QtgError as error:
        await engine.outcomes.record(work, _refused_or_deferred(work, error))
    else:
        try:
            if not await engine.intents.record(work, intent):
                await engine.store.record_intent(work, intent)
        except RiskControlViolated as over:  # others were faster: nothing of it was sent
            await engine.outcomes.record(work, _refused_or_deferred(work, over))
            return
        await _submit(engine, work, executor, context, intent.prepared)


async def _make_ready(engine: Engine, work: Work) -> tuple[ExecutionContext, Intent, Executor]:
    """Everything before the write-ahead; nothing here may have an effect anywhere."""
    check_drift(work)
    check_approval(work)
    attempt_no = work.attempt_no + 1
    context = build_execution_context(work, attempt_no=attempt_no)
    amount = check_limits(work, context.node_config, engine.inventory)
    if amount is not None:
        asset = str(context.node_config["asset"])
        await engine.velocity.check(asset, amount, field=f"nodes.{work.node.node_key}.config.amount")
    try:
        executor = engine.executors.resolve(str(work.node.executor_key))
    except NotFound as missing:
        raise _NotNow("EXECUTOR_MISSING", str(missing), 60.0) from missing
    await _check_fee(engine, work, executor, context)
    await _preflight(executor, context)
    prepared = await _prepare(engine, executor, context)
    signed = await _sign(engine, work, context, prepared) if prepared.signing_required else None
    if signed is not None:
        refs = {**prepared.provider_refs, **signed.provider_refs}
        prepared = prepared.model_copy(update={"signed_payload": signed.signed_payload, "provider_refs": refs})
    intent = Intent(
        prepared=prepared,
        attempt_no=attempt_no,
        idempotency_key=context.idempotency_key,
        signer_key=signed.signer_key if signed else None,
        signer_address=signed.signer_address if signed else None,
        ledger=ledger_document(
            work.plan,
            work.node.node_key,
            context.node_config,
            engine.inventory,
            intent=work.intent,
            input_params=work.input_params,
        ),
    )
    fault_point(FaultPoint.SIGNED_UNSAVED)
    return context, intent, executor


async def _check_fee(engine: Engine, work: Work, executor: Executor, context: ExecutionContext) -> None:
    """The template's fee ceiling, for executors that can say beforehand what they would take."""
    controls = work.plan.risk_controls
    if controls.max_fee is None or not isinstance(executor, EstimatesFees):
        return
    try:
        estimate = await executor.estimate_fee(context)
    except Exception as unknown:  # noqa: BLE001 - whatever stands in the way: the executor's own preflight comes next
        log.info("fee not known beforehand", node=work.claim.node_id, reason=_describe(unknown))
        return
    asset = engine.inventory.asset(estimate.asset, field="fee.asset")
    check_fee(controls, Amount.parse(asset, estimate.amount, field="fee"), asset)


async def _preflight(executor: Executor, context: ExecutionContext) -> None:
    fault_point(FaultPoint.PREFLIGHT)
    try:
        problem = await executor.preflight(context)
    except QtgError:
        raise
    except Exception as error:
        raise _NotNow("PREFLIGHT_ERROR", _describe(error)) from error
    if problem is None:
        return
    if problem.status is ResultStatus.NOT_SENT:
        reason = problem.error_message or "preflight asked to wait"
        raise _NotNow(problem.error_code or "NOT_NOW", reason, problem.retry_after_seconds)
    raise _PreflightRefused(problem)


async def _prepare(engine: Engine, executor: Executor, context: ExecutionContext) -> PreparedAction:
    try:
        prepared = await executor.prepare(context)
    except QtgError:
        raise
    except Exception as error:
        raise _NotNow("PREPARE_ERROR", _describe(error)) from error
    if payload_hash(prepared.payload) != prepared.payload_hash:
        raise _NotNow("PAYLOAD_HASH_WRONG", "prepare returned a payload that does not match its hash", 60.0)
    problem = json_problem(prepared.model_dump(mode="python"))
    if problem:
        raise _NotNow("PREPARED_NOT_STORABLE", f"prepare returned what cannot be written ahead: {problem}", 60.0)
    if prepared.expires_at is not None and prepared.expires_at <= engine.clock.now():
        raise _NotNow("PREPARED_EXPIRED", "the prepared action was stale when it arrived; it is prepared again")
    return prepared


async def _sign(engine: Engine, work: Work, context: ExecutionContext, prepared: PreparedAction) -> SignedPayload:
    fault_point(FaultPoint.BEFORE_SIGN)
    role = work.node.signer_role
    signer_key = work.resolved_bindings.get(f"signer:{role}")
    if signer_key is None:
        raise SigningRefused(f"the action needs a signature, but role {role!r} is bound to no signer")
    try:
        signer = engine.signers.resolve(signer_key)
        signed = await signer.sign(build_sign_request(context, prepared, approval=approval_terms(work)))
    except SigningRefused:
        raise
    except Exception as error:
        raise _NotNow("SIGNER_UNAVAILABLE", _describe(error)) from error
    if signed.payload_hash != prepared.payload_hash:
        raise SigningRefused("the signer answered for another payload")
    return signed


async def _submit(
    engine: Engine, work: Work, executor: Executor, context: ExecutionContext, prepared: PreparedAction
) -> None:
    """The one call. Its every failure that is not proven to have stayed here is UNKNOWN."""
    fault_point(FaultPoint.SIGNED_SAVED)
    submitting = work.in_state(NodeState.SUBMITTING)
    if prepared.expires_at is not None and prepared.expires_at <= engine.clock.now():
        result = ExecutionResult(
            status=ResultStatus.NOT_SENT,
            error_code="PREPARED_EXPIRED",
            error_message="the action expired between its intent and its submission; it is prepared again",
            evidence={"expires_at": prepared.expires_at.isoformat()},
        )
    else:
        try:
            async with engine.session_for(executor) as session:
                result = await executor.submit(context, prepared, session)
        except Exception as error:
            log.exception("submit raised", node=work.claim.node_id)
            result = ExecutionResult(
                status=ResultStatus.UNKNOWN,
                error_code="SUBMIT_RAISED",
                error_message=_describe(error),
                evidence={"exception": type(error).__name__},
            )
    fault_point(FaultPoint.RESPONSE_UNCOMMITTED)
    try:
        await engine.outcomes.record(submitting, move_for_submit(submitting, result, executor))
    except StaleClaim as stale:
        log.warning("outcome fenced", node=work.claim.node_id, reason=str(stale))
    fault_point(FaultPoint.SUBMITTED_COMMIT)


def _refused_or_deferred(work: Work, error: QtgError) -> Move:
    for kind, code in _REFUSALS:
        if isinstance(error, kind):
            return _refused(code, str(error), {})
    return _deferred(work, _NotNow("NOT_STARTED", str(error)))


def _refused(code: str, message: str, evidence: dict[str, object]) -> Move:
    facts = {"error_code": code, "error_message": redact_text(message), **evidence, "effect": "none: nothing was sent"}
    return Move(
        to_state=NodeState.FAILED,
        step_kind=StepKind.REFUSED,
        facts=facts,
        error_code=code,
        error_message=redact_text(message),
        release_nonce=True,
        audited=code in _AUDITED,
    )


def _deferred(work: Work, later: _NotNow) -> Move:
    again = work.looks + 1 if work.error_code == later.code else 0
    delay = DEFERRALS[min(again, len(DEFERRALS) - 1)] if later.retry_after is None else clamp_hint(later.retry_after)
    return Move(
        to_state=NodeState.READY,
        step_kind=StepKind.DEFERRED,
        facts={"error_code": later.code, "error_message": redact_text(str(later))},
        provider_refs=work.provider_refs,
        error_code=later.code,
        error_message=redact_text(str(later)),
        look_after=delay,
    )


def _describe(error: Exception) -> str:
    return redact_text(f"{type(error).__name__}: {error}")
