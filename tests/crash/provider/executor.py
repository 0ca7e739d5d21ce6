"""`exec.crash.bank`: an honest executor over a bank that never deduplicates. It knows only what the bank can prove.

Absence can be proven because an order is valid for a moment of the bank's own clock: a process that was stopped with
its hand on the order may wake at any time and send it, and nothing on our side could hold it back.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    PreparedAction,
    ResultStatus,
    SignedPayload,
    SignRequest,
)
from qtg_dagster.faults import FaultPoint, fault_point

KEY = "exec.crash.bank"
SIGNER_KEY = "signer.crash.bank"
#: Its bytes must never be seen in a row or a log.
CANARY = "canary-4f0e9c71d2b8a635"
PREPARED_FOR = timedelta(seconds=2.0)
#: Longer than an order is valid, and the bank may act late on top of it.
SETTLE_SECONDS = 2.3
LOOKS_NEEDED = 2
_REPLY_SECONDS = 0.8
_LOOK_AGAIN_SECONDS = 0.1


class BankSigner:
    """Signs with a shared secret."""

    signer_key = SIGNER_KEY

    async def sign(self, request: SignRequest) -> SignedPayload:
        signature = hmac.new(CANARY.encode(), request.payload.encode(), hashlib.sha256).hexdigest()
        return SignedPayload(
            payload_hash=request.payload_hash,
            signed_payload="0x" + signature,
            signer_key=SIGNER_KEY,
            signer_address="crash-bank",
        )

    async def health(self) -> HealthReport | None:
        return None


class BankExecutor:
    """Moves money at the bank. `config`: account, asset, amount, destination."""

    submit_grace_seconds = SETTLE_SECONDS

    def __init__(self, socket: Path, clock: Clock) -> None:
        self._socket = socket
        self._clock = clock

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        return None

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        config = context.node_config
        now = float((await self._ask({"op": "time"}))["now"])
        return PreparedAction.of(
            action_type=context.action_type,
            payload_format="crash.bank.v1",
            payload=canonical_json(
                {
                    "client_id": context.idempotency_key,
                    "account": config["account"],
                    "amount": config["amount"],
                    "target": config["destination"],
                    "valid_until": repr(now + PREPARED_FOR.total_seconds()),
                }
            ),
            signing_required=True,
            expires_at=self._clock.now() + PREPARED_FOR,
            provider_refs={"client_id": context.idempotency_key},
        )

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: AsyncSession | None = None
    ) -> ExecutionResult:
        """One request, one answer; whatever is not plainly an answer is UNKNOWN."""
        try:
            said = await self._ask({"op": "move", **json.loads(prepared.payload)}, moves_money=True)
        except (ConnectionRefusedError, FileNotFoundError) as error:
            evidence = {"connect": type(error).__name__}
            return ExecutionResult(status=ResultStatus.NOT_SENT, error_code="BANK_CLOSED", evidence=evidence)
        except (OSError, ValueError, TimeoutError) as error:
            evidence = {"lost": type(error).__name__}
            return ExecutionResult(status=ResultStatus.UNKNOWN, error_code="REPLY_LOST", evidence=evidence)
        if said.get("status") != "accepted":
            return ExecutionResult(status=ResultStatus.UNKNOWN, error_code="BANK_ERROR", evidence=said)
        return ExecutionResult(
            status=ResultStatus.ACCEPTED,
            provider_refs={"reference": said["reference"]},
            retry_after_seconds=0,
            evidence=said,
        )

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        moves = await self._find(context)
        if moves:
            return self._done(moves)
        return ExecutionResult(
            status=ResultStatus.OBSERVING, retry_after_seconds=_LOOK_AGAIN_SECONDS, evidence={"moves": []}
        )

    async def recover(self, context: ExecutionContext, session: AsyncSession | None = None) -> ExecutionResult:
        """FAILED only after two empty looks, the first of which came when the settle window was over."""
        moves = await self._find(context)
        if moves:
            return self._done(moves)
        looks = int(context.node_refs.get("absent_looks", 0)) + 1
        evidence = {"absent_looks": looks, "client_id": context.idempotency_key}
        proven = looks >= LOOKS_NEEDED
        return ExecutionResult(
            status=ResultStatus.FAILED if proven else ResultStatus.UNKNOWN,
            provider_refs={"absent_looks": str(looks)},
            error_code="NOT_EXECUTED" if proven else "NOT_FOUND_YET",
            retry_after_seconds=_LOOK_AGAIN_SECONDS,
            evidence=evidence,
        )

    async def health(self) -> HealthReport | None:
        return None

    def _done(self, moves: list[dict[str, Any]]) -> ExecutionResult:
        return ExecutionResult(
            status=ResultStatus.COMPLETED,
            provider_refs={"reference": moves[0]["reference"], "moved_amount": moves[0]["amount"]},
            evidence={"moves": moves},
        )

    async def _find(self, context: ExecutionContext) -> list[dict[str, Any]]:
        said = await self._ask({"op": "find", "client_id": context.idempotency_key})
        return list(said["moves"])

    async def _ask(self, question: dict[str, Any], *, moves_money: bool = False) -> dict[str, Any]:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(json.dumps(question).encode() + b"\n")
            await writer.drain()
            if moves_money:
                fault_point(FaultPoint.SUBMIT_BYTES_SENT)
            line = await asyncio.wait_for(reader.readline(), _REPLY_SECONDS)
            if not line:
                raise ConnectionResetError("the bank hung up")
            answer: dict[str, Any] = json.loads(line)
            return answer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def set_modes(socket: Path, account: str, modes: Sequence[str]) -> None:
    """Tell the bank how the next moves of an account go."""
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(json.dumps({"op": "modes", "account": account, "modes": list(modes)}).encode() + b"\n")
    await reader.readline()
    writer.close()
