"""What a transfer would cost now. Reads only: no nonce is taken."""

from __future__ import annotations

from decimal import Decimal

from qtg_dagster.domain.amounts import Amount, plain_decimal
from qtg_dagster.domain.contract import ExecutionContext
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.review import FeeEstimate
from qtg_dagster.lanes.evm.endpoint import RpcRefused
from qtg_dagster.lanes.evm.fees import WEI_PER_GWEI
from qtg_dagster.lanes.evm.preflight import Call, estimate_gas, offer_fees
from qtg_dagster.lanes.evm.receipts import decode_revert
from qtg_dagster.lanes.evm.rpc import Chains
from qtg_dagster.lanes.evm.terms import TransferTerms


async def estimate_transfer_fee(chains: Chains, context: ExecutionContext) -> FeeEstimate:
    """The most that it can cost, in the chain's native coin, at the offer that would be made now.

    Raises `InvalidInput` or `NotFound` for terms that make no sense, `Conflict` for a transfer that would revert or gas
    over the chain's ceiling, and what a chain that cannot be read raises.
    """
    terms = TransferTerms.read(context.node_config, chains.inventory)
    rpc = chains[terms.chain]
    await rpc.verify_chain_id()
    try:
        gas = await estimate_gas(rpc, terms.sender, Call.of(terms))
    except RpcRefused as refusal:
        raise Conflict(f"it would revert now: {decode_revert(refusal.data) or refusal.message}") from refusal
    fees = await offer_fees(rpc)
    if fees is None:
        raise Conflict(f"chains.{rpc.key}.max_fee_gwei: gas costs more than {rpc.entry.max_fee_gwei} gwei now")
    gwei = plain_decimal(Decimal(fees.max_fee.wei) / WEI_PER_GWEI)
    return FeeEstimate(
        asset=rpc.entry.native_asset,
        amount=Amount(rpc.native, fees.cost(gas)).to_text(),
        how=f"at most: {gas} gas, a fifth to spare, at {gwei} gwei",
    )
