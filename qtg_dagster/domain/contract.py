"""The documents that executors and signers are given and answer with, over any transport."""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from qtg_dagster.domain.plans import Frozen, TimeoutPolicy

PROTOCOL_VERSION = "1.0"
#: Among the refs of a node that adopted something: what an operator named. Its own prepared action is not what acted.
ADOPTED_REF = "adopted_reference"


class ResultStatus(StrEnum):
    """What an executor says about its action.

    `submit` answers NOT_SENT, REJECTED, ACCEPTED, COMPLETED or UNKNOWN; `observe` answers ACCEPTED (a receipt was
    reorganised away), OBSERVING, COMPLETED, FAILED or UNKNOWN; `recover` answers ACCEPTED, COMPLETED, FAILED or
    UNKNOWN; `preflight` answers nothing, or REJECTED, or NOT_SENT for "not now, ask again".
    """

    NOT_SENT = "NOT_SENT"  # provably never left this machine
    REJECTED = "REJECTED"  # the provider refused it, by a listed code
    ACCEPTED = "ACCEPTED"  # the provider has it and gave a reference
    OBSERVING = "OBSERVING"  # in progress
    COMPLETED = "COMPLETED"  # it took effect
    FAILED = "FAILED"  # proven not to have taken effect
    UNKNOWN = "UNKNOWN"  # none of the above can be proven


class ExecutionContext(Frozen):
    """The work order for one node, complete in itself."""

    protocol_version: str = PROTOCOL_VERSION
    request_id: str
    request_node_id: str
    compiled_plan_hash: str
    template_key: str
    template_version: int
    node_key: str
    node_kind: str
    action_type: str
    attempt_no: int = Field(ge=1)
    intent: dict[str, Any]
    input_params: dict[str, Any]
    resolved_bindings: dict[str, str]
    risk_controls: dict[str, Any]
    prior_artifacts: tuple[dict[str, Any], ...] = ()
    node_config: dict[str, Any]
    provider_context: dict[str, Any]
    timeout_policy: TimeoutPolicy = TimeoutPolicy()
    # Beyond the seed: what observe and recover need to find the very action that was submitted.
    idempotency_key: str
    node_refs: dict[str, Any] = Field(default_factory=dict, description="refs this node reported so far")
    prepared: PreparedAction | None = Field(default=None, description="the action of this attempt, once prepared")
    started_at: datetime | None = None


class NonceReservation(Frozen):
    """A nonce that this action will consume; bound to it in the commit of the intent."""

    chain: str = Field(description="CAIP-2")
    sender: str = Field(description="lower-case 0x address")
    nonce: int = Field(ge=0)


class PreparedAction(Frozen):
    """What will be done, serialised; nothing has been done yet."""

    action_type: str
    payload_format: str = Field(description='e.g. "binance.withdraw.v1", "evm.eip1559.v1"')
    payload: str = Field(description="canonical text of the action")
    payload_hash: str = Field(description="hex SHA-256 of the payload text")
    signing_required: bool = False
    signed_payload: str | None = Field(default=None, description="what the signer returned; 0x hex for EVM")
    expires_at: datetime | None = Field(default=None, description="after this it is prepared again, not sent")
    nonce_reservation: NonceReservation | None = None
    provider_refs: dict[str, Any] = Field(
        default_factory=dict, description="known before submission, e.g. a transaction hash or client id"
    )

    @classmethod
    def of(cls, *, action_type: str, payload_format: str, payload: str, **rest: Any) -> PreparedAction:
        """Build with the payload's hash computed."""
        return cls(
            action_type=action_type,
            payload_format=payload_format,
            payload=payload,
            payload_hash=payload_hash(payload),
            **rest,
        )


class ExecutionResult(Frozen):
    """An executor's answer. `evidence` is what was seen, redacted, and goes to the journal word for word."""

    status: ResultStatus
    provider_refs: dict[str, Any] = Field(default_factory=dict)
    artifacts: dict[str, Any] = Field(default_factory=dict)
    error_code: str | None = None
    error_message: str | None = None
    retry_after_seconds: float | None = Field(default=None, ge=0)
    evidence: dict[str, Any] = Field(default_factory=dict)


class SigningIntent(Frozen):
    """What the signer is asked to agree to, in the terms of the approval."""

    action: str
    asset: str
    amount: str
    destination: str
    max_fee_usd: str | None = None
    chain_family: str = "evm"
    allowed_payload_hash: str


class SignRequest(Frozen):
    """A payload to sign, with the intent it must agree with."""

    protocol_version: str = PROTOCOL_VERSION
    request_id: str
    request_node_id: str
    signing_intent: SigningIntent
    payload_format: str
    payload: str
    payload_hash: str
    metadata: dict[str, Any] = Field(default_factory=dict)


class SignedPayload(Frozen):
    """A signature over exactly the payload that was asked for."""

    payload_hash: str
    signed_payload: str = Field(description="0x hex of the signed bytes")
    signer_key: str
    signer_address: str
    provider_refs: dict[str, Any] = Field(default_factory=dict, description="e.g. the transaction hash")


class HealthState(StrEnum):
    """Whether an executor's or signer's dependency can be reached."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    DOWN = "down"
    UNKNOWN = "unknown"


class HealthReport(Frozen):
    """The answer of `health`."""

    health_state: HealthState
    detail: str = ""
    signer_address: str | None = None


def payload_hash(payload: str) -> str:
    """Hex SHA-256 of the payload's text: the link from prepare through signing to submission."""
    return hashlib.sha256(payload.encode()).hexdigest()


ExecutionContext.model_rebuild()
