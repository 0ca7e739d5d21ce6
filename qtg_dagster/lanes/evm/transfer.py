"""`exec.evm.transfer`: one native or ERC-20 transfer from one of our accounts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from qtg_dagster.domain.clock import Clock, SystemClock
from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    NonceReservation,
    PreparedAction,
    ResultStatus,
)
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.domain.review import FeeEstimate
from qtg_dagster.lanes.evm.adopting import adopted_transfer, judge_adoption
from qtg_dagster.lanes.evm.answers import LOOK_FAILED, look_failed, rejected
from qtg_dagster.lanes.evm.broadcast import Verdict, verdict_of_error, verdict_of_hash
from qtg_dagster.lanes.evm.endpoint import RpcRefused
from qtg_dagster.lanes.evm.fate import Fate, Sighting, look
from qtg_dagster.lanes.evm.fee_estimate import estimate_transfer_fee
from qtg_dagster.lanes.evm.health import chains_health
from qtg_dagster.lanes.evm.nonces import NonceLedger
from qtg_dagster.lanes.evm.outcome import mismatched, observed, recovered, unsigned
from qtg_dagster.lanes.evm.preflight import Call, check_cost, check_transfer, estimate_gas, offer_fees
from qtg_dagster.lanes.evm.rpc import ChainRpc, Chains
from qtg_dagster.lanes.evm.sent import NotThisTransfer, SentTransfer
from qtg_dagster.lanes.evm.terms import TransferTerms
from qtg_dagster.lanes.evm.transaction import PAYLOAD_FORMAT, UnsignedTransaction

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

PREPARED_FOR = timedelta(minutes=2)
RECOVER_SOON_SECONDS = 1.0


class Transfer:
    """Moves an asset on a chain. The transaction's hash is known before its bytes are handed to anyone."""

    submit_grace_seconds = 20.0
    identifying_refs: tuple[str, ...] = ("tx_hash",)

    def __init__(self, chains: Chains, nonces: NonceLedger, clock: Clock | None = None) -> None:
        self._chains = chains
        self._nonces = nonces
        self._clock = clock or SystemClock()

    def serialization_key(self, node_config: Mapping[str, Any]) -> str | None:
        """One transfer in flight per sender and chain, whatever it moves."""
        chain, account = str(node_config.get("chain")), str(node_config.get("account"))
        known = self._chains.inventory.accounts.get(account)
        return f"evm:{chain}:{known.address if known else account}"

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        """Checks the chain's identity, the contract, balances, gas and ceilings."""
        try:
            terms = self._terms(context)
            rpc = self._chains[terms.chain]
            await rpc.verify_chain_id()
            return await check_transfer(rpc, terms, context)
        except (InvalidInput, NotFound) as error:
            return rejected("INVALID_CONFIG", str(error))
        except LOOK_FAILED as error:
            return look_failed(ResultStatus.NOT_SENT, error)

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        """The unsigned transaction under a reserved nonce; raises `WrongChain`, `Conflict` or `RiskControlViolated`.

        What it raises, it raises before a nonce is taken.
        """
        terms = self._terms(context)
        rpc = self._chains[terms.chain]
        await rpc.verify_chain_id()
        call = Call.of(terms)
        gas = await estimate_gas(rpc, terms.sender, call)
        fees = await offer_fees(rpc)
        if fees is None:
            raise Conflict(f"chains.{rpc.key}.max_fee_gwei: gas costs more than {rpc.entry.max_fee_gwei} gwei now")
        # Prices have moved since preflight looked.
        check_cost(rpc, gas, fees, context)
        nonce = await self._nonces.reserve(
            chain=terms.chain,
            sender=terms.sender,
            request_node_id=context.request_node_id,
            attempt_no=context.attempt_no,
            chain_nonce=await rpc.quantity("eth_getTransactionCount", terms.sender, "latest"),
        )
        transaction = UnsignedTransaction(
            chain_id=rpc.chain_id,
            nonce=nonce,
            to=call.to,
            value=call.value,
            data=call.data,
            gas=gas,
            max_fee_per_gas=fees.max_fee.wei,
            max_priority_fee_per_gas=fees.tip.wei,
        )
        return PreparedAction.of(
            action_type=context.action_type,
            payload_format=PAYLOAD_FORMAT,
            payload=transaction.payload(request_node_id=context.request_node_id, attempt_no=context.attempt_no),
            signing_required=True,
            expires_at=self._clock.now() + PREPARED_FOR,
            nonce_reservation=NonceReservation(chain=terms.chain, sender=terms.sender, nonce=nonce),
            provider_refs={"nonce": str(nonce)},
        )

    async def submit(
        self,
        context: ExecutionContext,
        prepared: PreparedAction,
        session: AsyncSession | None = None,  # noqa: ARG002 - the contract's
    ) -> ExecutionResult:
        """Hand the signed bytes to one node, once."""
        try:
            sent = SentTransfer.of(self._terms(context), prepared)
            signed = str(prepared.signed_payload)
        except (InvalidInput, NotFound, NotThisTransfer) as error:
            return rejected("SIGNED_PAYLOAD_MISMATCH", f"the signed bytes are not what was prepared: {error}")
        now = self._clock.now()
        if prepared.expires_at is not None and prepared.expires_at <= now:
            until = prepared.expires_at.isoformat()
            return ExecutionResult(
                status=ResultStatus.NOT_SENT,
                error_code="PREPARED_EXPIRED",
                error_message=f"prepared until {until}; prepare again",
                evidence={"expires_at": until, "now": now.isoformat(), **sent.refs()},
            )
        verdict, words = await self._hand_over(self._chains[sent.terms.chain], signed, sent.own.hash)
        status = {Verdict.ACCEPTED: ResultStatus.ACCEPTED, Verdict.NEVER: ResultStatus.REJECTED}
        return ExecutionResult(
            status=status.get(verdict, ResultStatus.UNKNOWN),
            provider_refs=sent.refs(),
            error_code=None if verdict is Verdict.ACCEPTED else f"BROADCAST_{verdict}",
            error_message=None if verdict is Verdict.ACCEPTED else words,
            retry_after_seconds=None if verdict is Verdict.ACCEPTED else RECOVER_SOON_SECONDS,
            evidence={"broadcast": verdict.value, "node_said": words, **sent.refs()},
        )

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        """Read the receipt. When no node knows the transaction and its nonce is free, the same stored bytes are sent
        again: that can never move more than the first sending, and a dropped or reorganised transaction needs it.
        """
        try:
            sent = self._sent(context)
        except NotThisTransfer as error:
            return mismatched(error)
        if sent is None:
            return unsigned()
        try:
            sighting, verdict = await self._look(sent)
            return await observed(self._chains[sent.terms.chain], sent, sighting, context.node_refs, verdict)
        except LOOK_FAILED as error:
            return look_failed(ResultStatus.OBSERVING, error)

    async def recover(
        self,
        context: ExecutionContext,
        session: AsyncSession | None = None,  # noqa: ARG002 - the contract's
    ) -> ExecutionResult:
        """Settle a lost answer by hash, receipt and nonce. FAILED only when the nonce is used, for good, by another
        transaction, or ours is mined for good with status 0.
        """
        try:
            sent = self._sent(context)
        except NotThisTransfer as error:
            return mismatched(error)
        if sent is None:
            return unsigned()
        try:
            sighting, verdict = await self._look(sent)
            return await recovered(self._chains[sent.terms.chain], sent, sighting, verdict)
        except LOOK_FAILED as error:
            return look_failed(ResultStatus.UNKNOWN, error)

    async def adopt(self, context: ExecutionContext, reference: str) -> ExecutionResult:
        """Compare a mined transaction with this node's transfer, and with what the node itself may have under way."""
        try:
            terms = self._terms(context)
            own = SentTransfer.of(terms, context.prepared) if context.prepared is not None else None
            rpc = self._chains[terms.chain]
            await rpc.verify_chain_id()
            return await judge_adoption(rpc, terms, own, reference)
        except (InvalidInput, NotFound, NotThisTransfer) as error:
            return rejected("INVALID_CONFIG", str(error))
        except LOOK_FAILED as error:
            return look_failed(ResultStatus.UNKNOWN, error)

    async def estimate_fee(self, context: ExecutionContext) -> FeeEstimate:
        """The most that it can cost now; see `estimate_transfer_fee`."""
        return await estimate_transfer_fee(self._chains, context)

    async def health(self) -> HealthReport | None:
        """Whether the chains answer, each as itself."""
        return await chains_health(self._chains)

    def _terms(self, context: ExecutionContext) -> TransferTerms:
        return TransferTerms.read(context.node_config, self._chains.inventory)

    def _sent(self, context: ExecutionContext) -> SentTransfer | None:
        adopted = adopted_transfer(self._terms(context), context)
        if adopted is not None:
            return adopted
        if context.prepared is None or context.prepared.signed_payload is None:
            return None
        return SentTransfer.of(self._terms(context), context.prepared)

    async def _look(self, sent: SentTransfer) -> tuple[Sighting, Verdict | None]:
        rpc = self._chains[sent.terms.chain]
        sighting = await look(rpc, sent.own)
        if sighting.fate is not Fate.ABSENT or sent.signed is None:
            return sighting, None
        verdict, words = await self._hand_over(rpc, sent.signed, sent.own.hash)
        sighting.evidence.update(rebroadcast=verdict.value, node_said=words)
        return sighting, verdict

    async def _hand_over(self, rpc: ChainRpc, signed: str, tx_hash: str) -> tuple[Verdict, str]:
        try:
            answer = await rpc.broadcast(signed)
            return verdict_of_hash(answer, tx_hash), answer
        except RpcRefused as error:
            return verdict_of_error(error.message), error.message
        except LOOK_FAILED as error:
            return Verdict.UNKNOWN, str(error)
