"""What filling a nonce needs of an EVM chain: all endpoints' word on it, a price that replaces, and who used it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.chains import ChainId, GasPrice
from qtg_dagster.domain.contract import payload_hash
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.nonce_chain import FeesOffered, FillOffer, Handover, LookFailed, Use
from qtg_dagster.domain.nonces import ChainView, UsedBy
from qtg_dagster.executors.signers.reading import effect_hash
from qtg_dagster.lanes.evm.answers import LOOK_FAILED
from qtg_dagster.lanes.evm.broadcast import Verdict, verdict_of_error, verdict_of_hash
from qtg_dagster.lanes.evm.endpoint import RpcRefused, reading
from qtg_dagster.lanes.evm.fate import find_nonce_taker
from qtg_dagster.lanes.evm.fees import WEI_PER_GWEI, gas_limit
from qtg_dagster.lanes.evm.receipts import find_receipt
from qtg_dagster.lanes.evm.rpc import ChainRpc, Chains
from qtg_dagster.lanes.evm.transaction import UnsignedTransaction

#: Nodes take a replacement from 10 % more on, in both prices; some from 12.5 %.
REPLACING_PERCENT = 113


class EvmNonces:
    """The chains of the inventory, as far as a sender's nonces go."""

    def __init__(self, chains: Chains) -> None:
        self._chains = chains

    async def view(self, chain: str, sender: str, nonce: int, ours: Sequence[str]) -> ChainView:
        """Every endpoint is asked, and the highest count is taken: one that lags makes no used nonce look unused."""
        with _looking():
            rpc = await self._opened(chain)
            latest = max(await rpc.quantities("eth_getTransactionCount", sender, "latest"))
            if latest > nonce:
                found = await find_nonce_taker(rpc, sender, nonce, await rpc.final_height())
                return ChainView(latest, latest, known=False, taker=found[0] if found else None)
            pending = max(await rpc.quantities("eth_getTransactionCount", sender, "pending"))
            known = False
            for tx_hash in ours:
                known = known or any(await rpc.ask_all("eth_getTransactionByHash", tx_hash))
            return ChainView(latest, pending, known)

    async def offer(
        self, chain: str, sender: str, nonce: int, *, node_id: str, version: int, over: Sequence[FeesOffered]
    ) -> FillOffer:
        """Nothing, from the sender to itself, at a price that replaces what offers `over`."""
        with _looking():
            rpc = await self._opened(chain)
            fees = await self._price(rpc, over)
            request = {"from": sender, "to": sender, "value": "0x0", "data": "0x"}
            try:
                gas = gas_limit(await rpc.quantity("eth_estimateGas", request))
            except RpcRefused as error:
                raise Conflict(f"{sender} cannot send nothing to itself on {chain}: {error.message}") from None
            cost = Amount(rpc.native, gas * fees.max_fee)
            balance = Amount(rpc.native, await rpc.quantity("eth_getBalance", sender, "latest"))
        if balance < cost:
            raise Conflict(f"{sender} has {balance} on {chain}, and filling may cost {cost}: send it some first")
        transaction = UnsignedTransaction(
            chain_id=rpc.chain_id,
            nonce=nonce,
            to=sender,
            value=0,
            data="0x",
            gas=gas,
            max_fee_per_gas=fees.max_fee,
            max_priority_fee_per_gas=fees.tip,
        )
        payload = transaction.payload(request_node_id=node_id, attempt_no=version)
        return FillOffer(payload, payload_hash(payload), fees, gas, str(cost), rpc.entry.native_asset)

    async def hand_over(self, chain: str, raw: str, tx_hash: str, fees: FeesOffered) -> Handover:
        """One request to one node. Whatever it answers, the same bytes may be handed over again."""
        rpc = self._chains[chain]
        try:
            answer = await rpc.broadcast(raw)
            verdict, said = verdict_of_hash(answer, tx_hash), answer
        except RpcRefused as error:
            verdict, said = verdict_of_error(error.message), error.message
        except LOOK_FAILED as error:
            verdict, said = Verdict.UNKNOWN, str(error)
        return Handover(verdict.value, said, outbid=verdict is Verdict.UNDERPRICED or await self._outbid(rpc, fees))

    async def use(
        self,
        chain: str,
        sender: str,
        nonce: int,
        *,
        fillers: Sequence[str],
        ours: Sequence[str],
        effects: Sequence[str],
    ) -> Use | None:
        """Who has it in a final block. What a reorganisation could still change is not settled."""
        with _looking():
            rpc = await self._opened(chain)
            if max(await rpc.quantities("eth_getTransactionCount", sender, "latest")) <= nonce:
                return None
            final = await rpc.final_height()
            found = await find_nonce_taker(rpc, sender, nonce, final)
            if found is None:
                return None
            taker, block = found
            sent = await rpc.ask("eth_getTransactionByHash", taker)
            with reading(chain, f"transaction {taker}"):
                effect = effect_hash(
                    chain, sender, nonce, to=str(sent["to"]).lower(), value=int(sent["value"], 16), data=sent["input"]
                )
            evidence: dict[str, Any] = {"taker": taker, "taker_block": block, "final_block": final, "nonce": nonce}
            receipt = await find_receipt(rpc, taker)
        if receipt is not None:
            evidence |= {**receipt.told(), "gas_fee": Amount(rpc.native, receipt.fee_wei).to_text()}
        if taker in fillers:
            return Use(taker, UsedBy.FILLER, evidence)
        if taker in ours or effect in effects:
            return Use(taker, UsedBy.ORIGINAL, evidence)
        return Use(taker, UsedBy.ANOTHER, {**evidence, "to": str(sent["to"]), "value": str(int(sent["value"], 16))})

    async def _opened(self, chain: str) -> ChainRpc:
        rpc = self._chains[chain]
        await rpc.verify_chain_id()
        return rpc

    async def _price(self, rpc: ChainRpc, over: Sequence[FeesOffered]) -> FeesOffered:
        latest = await rpc.block("latest")
        base_fee = latest.base_fee if latest else 0
        chain, ceiling = ChainId(rpc.key), rpc.entry.max_fee_gwei * WEI_PER_GWEI
        raised = [(_raised(chain, each.max_fee), _raised(chain, each.tip)) for each in over]
        tip = max(await rpc.quantity("eth_maxPriorityFeePerGas"), 1, *(tip for _, tip in raised))
        least = max(base_fee + tip, *(max_fee for max_fee, _ in raised), 0)
        if least > ceiling:
            raise Conflict(
                f"chains.{rpc.key}.max_fee_gwei: what fills the nonce must offer {least} wei per gas, over "
                f"{rpc.entry.max_fee_gwei} gwei; wait for lower fees, or raise it"
            )
        return FeesOffered(max_fee=min(max(2 * base_fee + tip, least), ceiling), tip=tip)

    async def _outbid(self, rpc: ChainRpc, fees: FeesOffered) -> bool:
        try:
            latest = await rpc.block("latest")
        except LOOK_FAILED:
            return False
        return latest is not None and latest.base_fee > fees.max_fee


def _raised(chain: ChainId, wei: int) -> int:
    return GasPrice(chain, wei).scaled(REPLACING_PERCENT).wei


@contextmanager
def _looking() -> Iterator[None]:
    try:
        yield
    except LOOK_FAILED as error:
        raise LookFailed(str(error)) from error
