"""What arrived, whether it is final, and what we own, read from a real chain."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from qtg_dagster.domain.contract import ExecutionContext, ResultStatus
from qtg_dagster.executors.contract import Executor
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.evm import register
from qtg_dagster.lanes.evm.balances import ChainBalances
from qtg_dagster.lanes.evm.rpc import ChainRpc
from qtg_dagster.sandbox import contracts

TRANSFER_TOPIC = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


def watch(desk: Any, tx_hash: str, asset: str = "USDC", refs: dict[str, Any] | None = None) -> ExecutionContext:
    base = desk.context(node_refs=refs)
    config = {"chain": "eip155:31337", "asset": asset, "account": "treasury", "tx_hash": tx_hash}
    return base.model_copy(update={"node_config": config, "node_kind": "observe"})


async def minted(desk: Any, units: int) -> str:
    data = contracts.call("mint(address,uint256)", ("address", desk.treasury), ("uint256", units))
    receipt = await asyncio.to_thread(desk.faucet.send, to=desk.token, data=data)
    return str(receipt["transactionHash"])


async def test_the_credited_amount_comes_from_the_log(desk: Any) -> None:
    context = watch(desk, await minted(desk, 7_250_000))
    assert await desk.receive.preflight(context) is None
    prepared = await desk.receive.prepare(context)
    assert (await desk.receive.submit(context, prepared)).status is ResultStatus.ACCEPTED
    assert (await desk.receive.observe(context)).status is ResultStatus.OBSERVING, "one confirmation of two"
    assert (await desk.receive.recover(context)).status is ResultStatus.ACCEPTED
    desk.mine(1)
    result = await desk.receive.observe(context)
    assert result.status is ResultStatus.COMPLETED
    assert result.provider_refs["received_amount"] == "7.25"
    assert set(result.provider_refs) == {"tx_hash", "block_number", "block_hash", "received_amount"}


async def test_a_token_that_takes_a_fee_is_reported_by_what_it_credited(desk: Any) -> None:
    """C10: asked 10,000, credited 9,990."""
    tx_hash = await minted(desk, 10_000_000_000)
    desk.mine(2)

    def with_fee(answer: dict[str, Any]) -> dict[str, Any]:
        for log in answer["result"]["logs"]:
            if log["topics"][0] == TRANSFER_TOPIC:
                log["data"] = "0x" + format(9_990_000_000, "064x")
        return answer

    desk.proxy.rewrite["eth_getTransactionReceipt"] = with_fee
    result = await desk.receive.observe(watch(desk, tx_hash))
    assert result.provider_refs["received_amount"] == "9990"


async def test_several_credits_in_one_transaction_add_up(desk: Any) -> None:
    tx_hash = await minted(desk, 1_000_000)
    desk.mine(2)

    def doubled(answer: dict[str, Any]) -> dict[str, Any]:
        answer["result"]["logs"] *= 2
        return answer

    desk.proxy.rewrite["eth_getTransactionReceipt"] = doubled
    assert (await desk.receive.observe(watch(desk, tx_hash))).provider_refs["received_amount"] == "2"


async def test_a_transaction_that_credits_somebody_else_is_no_receipt(desk: Any) -> None:
    data = contracts.call("mint(address,uint256)", ("address", "0x" + "66" * 20), ("uint256", 5))
    receipt = await asyncio.to_thread(desk.faucet.send, to=desk.token, data=data)
    context = watch(desk, receipt["transactionHash"])
    assert (await desk.receive.observe(context)).status is ResultStatus.OBSERVING, "not before it is deep enough"
    desk.mine(2)
    result = await desk.receive.observe(context)
    assert (result.status, result.error_code) == (ResultStatus.FAILED, "NOT_CREDITED")


async def test_a_look_alike_token_does_not_count(desk: Any) -> None:
    fake = await asyncio.to_thread(contracts.deploy_usdc, desk.faucet)
    data = contracts.call("mint(address,uint256)", ("address", desk.treasury), ("uint256", 5_000_000))
    receipt = await asyncio.to_thread(desk.faucet.send, to=fake, data=data)
    desk.mine(2)
    result = await desk.receive.observe(watch(desk, receipt["transactionHash"]))
    assert (result.status, result.error_code) == (ResultStatus.FAILED, "NOT_CREDITED")


async def test_native_coins_count_by_value(desk: Any) -> None:
    receipt = await asyncio.to_thread(desk.faucet.send, to=desk.treasury, value=3 * 10**17)
    desk.mine(2)
    result = await desk.receive.observe(watch(desk, receipt["transactionHash"], asset="ETH"))
    assert result.provider_refs["received_amount"] == "0.3"


async def test_native_coins_that_name_another_recipient_are_not_called_absent(desk: Any) -> None:
    receipt = await asyncio.to_thread(desk.faucet.send, to="0x" + "66" * 20, value=1)
    desk.mine(2)
    result = await desk.receive.observe(watch(desk, receipt["transactionHash"], asset="ETH"))
    assert (result.status, result.error_code) == (ResultStatus.UNKNOWN, "CREDIT_NOT_VISIBLE")


@pytest.mark.parametrize("tx_hash", ["0x12", "off-chain transfer 5", "0x" + "g" * 64])
async def test_what_is_no_hash_is_refused(desk: Any, tx_hash: str) -> None:
    result = await desk.receive.preflight(watch(desk, tx_hash))
    assert (result.status, result.error_code) == (ResultStatus.REJECTED, "INVALID_CONFIG")


async def test_a_hash_without_0x_is_the_same_hash(desk: Any) -> None:
    tx_hash = await minted(desk, 1_000_000)
    desk.mine(2)
    result = await desk.receive.observe(watch(desk, tx_hash.removeprefix("0x").upper()))
    assert result.status is ResultStatus.COMPLETED


async def test_an_unknown_transaction_is_waited_for(desk: Any) -> None:
    context = watch(desk, "0x" + "ab" * 32)
    assert (await desk.receive.observe(context)).status is ResultStatus.OBSERVING
    assert (await desk.finality.observe(context)).status is ResultStatus.OBSERVING


async def test_finality_waits_for_the_finalized_block(desk: Any) -> None:
    context = watch(desk, await minted(desk, 1))
    assert (await desk.finality.observe(context)).status is ResultStatus.OBSERVING
    desk.mine(1)
    assert (await desk.finality.observe(context)).status is ResultStatus.OBSERVING
    desk.mine(1)
    result = await desk.finality.observe(context)
    assert result.status is ResultStatus.COMPLETED
    assert int(result.provider_refs["finalized_block"]) >= int(result.provider_refs["block_number"])


async def test_a_reorganisation_starts_the_wait_for_finality_again(desk: Any) -> None:
    tx_hash = await minted(desk, 1)
    seen = await desk.finality.observe(watch(desk, tx_hash))
    assert seen.provider_refs["block_hash"]
    desk.faucet.call("anvil_reorg", 1, [])
    gone = await desk.finality.observe(watch(desk, tx_hash, refs=seen.provider_refs))
    assert gone.status is ResultStatus.OBSERVING
    assert "reorganised away" in gone.evidence["waiting_for"]
    desk.mine(5)
    later = await desk.finality.observe(watch(desk, tx_hash, refs=seen.provider_refs))
    assert later.status is ResultStatus.OBSERVING, "blocks on top of another block finalise nothing of ours"


async def test_a_receipt_of_a_block_that_is_not_canonical_is_not_final(desk: Any) -> None:
    tx_hash = await minted(desk, 1)
    desk.mine(5)
    desk.proxy.rewrite["eth_getTransactionReceipt"] = lambda answer: {
        **answer,
        "result": {**answer["result"], "blockHash": "0x" + "00" * 32},
    }
    assert (await desk.finality.observe(watch(desk, tx_hash))).status is ResultStatus.OBSERVING
    assert (await desk.receive.observe(watch(desk, tx_hash))).status is ResultStatus.OBSERVING


async def test_balances_are_of_one_block(desk: Any) -> None:
    readings = {r.asset: r for r in await ChainBalances(desk.chains, "eip155:31337").fetch()}
    assert readings["USDC"].free == "1000"
    assert readings["ETH"].free == "1"
    assert readings["USDC"].account == desk.treasury
    assert readings["USDC"].source_height == readings["ETH"].source_height


async def test_a_read_falls_back_to_the_next_endpoint(
    desk: Any, anvil_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    entry = desk.inventory.chains["eip155:31337"]
    dead = entry.model_copy(update={"rpc_urls": ("http://127.0.0.1:9/secret-key", anvil_url)})
    rpc = ChainRpc("eip155:31337", dead, desk.chains["eip155:31337"].native)
    assert await rpc.height() > 0
    await rpc.verify_chain_id()
    with pytest.raises(Exception, match=r"127\.0\.0\.1:9") as failure:
        await rpc.ask_all("eth_blockNumber")
    assert "secret-key" not in str(failure.value), "paths of RPC addresses hold keys"
    await rpc.close()
    assert "secret-key" not in caplog.text


async def test_the_lane_registers_under_its_keys() -> None:
    executors = ExecutorRegistry()

    class Ledger:
        async def reserve(self, **_: Any) -> int:
            raise AssertionError

    lane = register(executors, Inventory(), Ledger())
    keys = [key for key, executor in executors.items() if isinstance(executor, Executor)]
    assert keys == ["exec.evm.finality_observe", "exec.evm.receive_observe", "exec.evm.transfer"]
    assert lane.balance_fetchers == ()


def test_importing_the_lane_loads_no_heavy_library() -> None:
    code = (
        "import sys, qtg_dagster.lanes.evm, qtg_dagster.executors.signers.local;"
        "print([m for m in ('web3', 'eth_account', 'eth_utils', 'aiohttp', 'eth_abi') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
