"""The safety check before a transfer: contract, decimals, balances, gas and fee ceilings, all read from the chain."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.chains import ChainId
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.domain.errors import RiskControlViolated
from qtg_dagster.domain.plans import RiskControls
from qtg_dagster.domain.risk import check_fee
from qtg_dagster.lanes.evm import erc20
from qtg_dagster.lanes.evm.answers import rejected
from qtg_dagster.lanes.evm.endpoint import RpcRefused, reading
from qtg_dagster.lanes.evm.fees import Fees, gas_limit, offer
from qtg_dagster.lanes.evm.receipts import decode_revert
from qtg_dagster.lanes.evm.rpc import ChainRpc
from qtg_dagster.lanes.evm.terms import TransferTerms

FEE_WAIT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Call:
    """What the transaction says to the chain."""

    to: str
    value: int
    data: str

    @classmethod
    def of(cls, terms: TransferTerms) -> Call:
        if terms.asset.token is None:
            return cls(terms.destination, terms.amount.base_units, "0x")
        return cls(terms.asset.token, 0, erc20.transfer_call(terms.destination, terms.amount.base_units))


async def offer_fees(rpc: ChainRpc) -> Fees | None:
    """Fees at the market; None while they are above the chain's ceiling."""
    latest = await rpc.block("latest")
    base_fee = latest.base_fee if latest else 0
    tip = await rpc.quantity("eth_maxPriorityFeePerGas")
    return offer(ChainId(rpc.key), base_fee=base_fee, tip=max(tip, 1), ceiling_gwei=rpc.entry.max_fee_gwei)


async def estimate_gas(rpc: ChainRpc, sender: str, call: Call) -> int:
    """Gas with margin; raises `RpcRefused` when the call would revert."""
    request = {"from": sender, "to": call.to, "value": hex(call.value), "data": call.data}
    return gas_limit(await rpc.quantity("eth_estimateGas", request))


def check_cost(rpc: ChainRpc, gas: int, fees: Fees, context: ExecutionContext) -> None:
    """Raise `RiskControlViolated` when that gas at these fees can cost more than the template allows."""
    check_fee(RiskControls.model_validate(context.risk_controls), Amount(rpc.native, fees.cost(gas)), rpc.native)


async def check_transfer(rpc: ChainRpc, terms: TransferTerms, context: ExecutionContext) -> ExecutionResult | None:
    """None when the transfer can be made now."""
    return (
        await _contract_problem(rpc, terms)
        or await _balance_problem(rpc, terms)
        or await _cost_problem(rpc, terms, context)
    )


async def _contract_problem(rpc: ChainRpc, terms: TransferTerms) -> ExecutionResult | None:
    token = terms.asset.token
    if token is None:
        return None
    if terms.destination == token:
        return rejected("DESTINATION_IS_TOKEN", "the destination is the token's own contract: it would be lost there")
    # A call to an address without code "succeeds" and moves nothing.
    if await rpc.ask("eth_getCode", token, "latest") in ("0x", "", None):
        return rejected("NO_CONTRACT", f"chains.{rpc.key}.tokens.{terms.asset.key}: no contract at {token}")
    answer = await rpc.ask("eth_call", {"to": token, "data": erc20.decimals_call()}, "latest")
    with reading(rpc.key, f"decimals() of {token}"):
        decimals = int(answer, 16) if answer not in ("0x", None) else None
    if decimals != terms.asset.asset.decimals:
        return rejected(
            "DECIMALS_DIFFER",
            f"assets.{terms.asset.key}.decimals is {terms.asset.asset.decimals}, the contract says {decimals}",
        )
    return None


async def _balance_problem(rpc: ChainRpc, terms: TransferTerms) -> ExecutionResult | None:
    token = terms.asset.token
    if token is None:
        units = await rpc.quantity("eth_getBalance", terms.sender, "latest")
    else:
        call = {"to": token, "data": erc20.balance_call(terms.sender)}
        units = await rpc.quantity("eth_call", call, "latest")
    balance = Amount(terms.asset.asset, units)
    if balance < terms.amount:
        return rejected("INSUFFICIENT_BALANCE", f"account {terms.account} has {balance}, {terms.amount} is asked")
    return None


async def _cost_problem(rpc: ChainRpc, terms: TransferTerms, context: ExecutionContext) -> ExecutionResult | None:
    native = rpc.native
    call = Call.of(terms)
    try:
        gas = await estimate_gas(rpc, terms.sender, call)
    except RpcRefused as error:
        return rejected("WOULD_REVERT", decode_revert(error.data) or error.message)
    fees = await offer_fees(rpc)
    if fees is None:
        return ExecutionResult(
            status=ResultStatus.NOT_SENT,
            error_code="FEES_ABOVE_CEILING",
            error_message=f"gas costs more than chains.{rpc.key}.max_fee_gwei ({rpc.entry.max_fee_gwei}) now",
            retry_after_seconds=FEE_WAIT_SECONDS,
            evidence={"max_fee_gwei": rpc.entry.max_fee_gwei},
        )
    cost = Amount(native, fees.cost(gas))
    try:
        check_cost(rpc, gas, fees, context)
    except RiskControlViolated as error:
        return rejected("FEE_CEILING", str(error))
    balance = Amount(native, await rpc.quantity("eth_getBalance", terms.sender, "latest"))
    needed = Amount(native, call.value) + cost
    if balance < needed:
        return rejected("INSUFFICIENT_GAS", f"account {terms.account} has {balance}, {needed} is needed with gas")
    return None
