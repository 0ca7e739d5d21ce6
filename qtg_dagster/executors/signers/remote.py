"""A signer that lives in another process and is asked over HTTP: `SignRequest` goes out, `SignedPayload` comes back.

Requests and answers are signed with a secret that both sides hold. What comes back is believed only as far as it is
the very transaction that was asked for; the service is expected to judge by a policy of its own besides.
"""

from __future__ import annotations

import asyncio

from pydantic import ValidationError

from qtg_dagster.domain.contract import HealthState, SignedPayload
from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.executors.addresses import ServiceAddress
from qtg_dagster.executors.calling import Answered, ServiceCaller
from qtg_dagster.executors.remote.documents import ErrorAnswer, HealthAnswer
from qtg_dagster.executors.remote.reading import Unreadable, read_document
from qtg_dagster.executors.signers.guarded import Agreed, GuardedSigner, SignerUnavailable
from qtg_dagster.executors.signers.journal import SignerJournal
from qtg_dagster.inventory import Inventory, RemoteSignerEntry

#: A signed transfer is a few hundred bytes.
MOST_ANSWER_BYTES = 65_536
#: The service understood the request and will not sign it; every other error may pass.
REFUSED = 403
_MOST_SHOWN = 400


class RemoteSigner(GuardedSigner):
    """Asks a signing service, once for each signature."""

    def __init__(self, key: str, entry: RemoteSignerEntry, inventory: Inventory, journal: SignerJournal) -> None:
        super().__init__(key, entry, inventory, journal)
        self._entry = entry
        self._caller: ServiceCaller | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        if self._caller is not None:
            await self._caller.close()

    async def _sender(self) -> str:
        return self._entry.address

    async def _sign(self, agreed: Agreed) -> str:
        request = agreed.request
        answer = await self._call(
            "POST", "/sign", request.model_dump_json().encode(), f"{request.request_node_id}:{request.payload_hash}"
        )
        try:
            signed = SignedPayload.model_validate_json(answer.body)
        except ValidationError:
            raise SigningRefused(f"{self._key}: the service's answer is no SignedPayload") from None
        if signed.payload_hash != request.payload_hash:
            raise SigningRefused(f"{self._key}: the service answered for another payload")
        if signed.signer_address.lower() != agreed.sender:
            raise SigningRefused(f"{self._key}: the service signed as another address than {agreed.sender}")
        return signed.signed_payload

    async def _observe(self) -> str:
        answer = await self._call("GET", "/health")
        try:
            report = read_document(answer.body, HealthAnswer).report
        except Unreadable as problem:
            raise SignerUnavailable(f"{self._key}: the service's answer: {problem}") from None
        if report is None:
            raise SignerUnavailable(f"{self._key}: the service says nothing of its health")
        if report.health_state is not HealthState.HEALTHY:
            said = redact_text(report.detail[:_MOST_SHOWN])
            raise SignerUnavailable(f"{self._key}: the service says {report.health_state}: {said}")
        if report.signer_address is None:
            raise SignerUnavailable(f"{self._key}: the service does not say which address it signs for")
        return report.signer_address.lower()

    async def _call(self, method: str, path: str, body: bytes = b"", idempotency_key: str = "") -> Answered:
        caller = await self._open()
        seconds = self._entry.timeout_seconds
        outcome = await caller.call(method, path, seconds=seconds, body=body, idempotency_key=idempotency_key)
        if not isinstance(outcome, Answered):
            raise SignerUnavailable(f"{self._key}: no answer of the service to {path}: {outcome.reason}")
        if outcome.status != 200:
            raise self._objection(outcome)
        return outcome

    def _objection(self, answer: Answered) -> SigningRefused | SignerUnavailable:
        try:
            error = read_document(answer.body, ErrorAnswer).error
            said = redact_text(f"{error.code}: {error.message}"[:_MOST_SHOWN])
        except Unreadable:
            said = "without a reason that can be read"
        kind = SigningRefused if answer.status == REFUSED else SignerUnavailable
        return kind(f"{self._key}: the service answered HTTP {answer.status}, {said}")

    async def _open(self) -> ServiceCaller:
        async with self._opening:
            if self._caller is None:
                # Reads the secret and the system's certificates: files.
                self._caller = await asyncio.to_thread(self._new_caller)
            return self._caller

    def _new_caller(self) -> ServiceCaller:
        where = f"signers.{self._key}"
        address = ServiceAddress.read(self._entry.url, ca_file=self._entry.ca_file, field=f"{where}.url")
        secret = self._entry.secret.read(f"{where}.secret")
        return ServiceCaller(address, secret, most_answer_bytes=MOST_ANSWER_BYTES)
