"""Answers that the lane's executors share: what to say when a chain could not be looked at."""

from __future__ import annotations

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.lanes.evm.endpoint import RpcRefused, RpcUnavailable
from qtg_dagster.lanes.evm.rpc import WrongChain

LOOK_FAILED = (RpcUnavailable, RpcRefused, WrongChain)
NEXT_LOOK_SECONDS = 5.0


def look_failed(status: ResultStatus, error: QtgError) -> ExecutionResult:
    """`status` unchanged by a look that failed; a rate limit's own waiting time is obeyed."""
    wait = error.retry_after_seconds if isinstance(error, RpcUnavailable) else None
    code = "CHAIN_ID_MISMATCH" if isinstance(error, WrongChain) else "RPC_LOOK_FAILED"
    return ExecutionResult(
        status=status,
        error_code=code,
        error_message=str(error),
        retry_after_seconds=NEXT_LOOK_SECONDS if wait is None else wait,
        evidence={"look": str(error)},
    )


def rejected(code: str, message: str, **evidence: str) -> ExecutionResult:
    """A refusal before anything was sent."""
    return ExecutionResult(
        status=ResultStatus.REJECTED,
        error_code=code,
        error_message=message,
        evidence={"refused": message, **evidence},
    )
