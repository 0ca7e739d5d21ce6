"""What a chain of several endpoints says of a nonce: one that lags or is silent makes nothing dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.nonce_chain import FeesOffered, LookFailed
from qtg_dagster.domain.nonces import ChainView, UsedBy
from qtg_dagster.executors.signers.reading import effect_hash
from qtg_dagster.lanes.evm.nonce_chain import EvmNonces
from qtg_dagster.lanes.evm.rpc import Chains
from qtg_dagster.lanes.evm.transaction import UnsignedTransaction
from tests.lanes.evm.conftest import CHAIN, FRIEND, NODE_ID, Desk

GWEI = 10**9


@asynccontextmanager
async def nonces(desk: Desk, **entry: Any) -> AsyncIterator[EvmNonces]:
    """The desk's chain with other terms: one endpoint answers through the proxy, the other is the node itself."""
    changed = desk.inventory.chains[CHAIN].model_copy(
        update={"rpc_urls": (desk.proxy.node_url, desk.proxy.url)} | entry
    )
    chains = Chains(desk.inventory.model_copy(update={"chains": {CHAIN: changed}}))
    try:
        yield EvmNonces(chains)
    finally:
        await chains.close()


async def sent(desk: Desk) -> str:
    """A transfer of 12.5 USDC under nonce 0, mined."""
    context, prepared = await desk.prepared()
    await desk.transfer.submit(context, prepared)
    for _ in range(500):
        if await asyncio.to_thread(desk.faucet.call, "eth_getTransactionCount", desk.treasury, "latest") == "0x1":
            return str(prepared.provider_refs["tx_hash"])
        await asyncio.sleep(0.01)
    pytest.fail("never mined")


def lagging(count: int) -> Callable[[Any], Any]:
    return lambda answer: {**answer, "result": hex(count)}


async def test_an_unused_nonce_is_seen_as_such(desk: Desk) -> None:
    async with nonces(desk) as chain:
        assert await chain.view(CHAIN, desk.treasury, 0, []) == ChainView(0, 0, known=False)


async def test_an_endpoint_that_lags_makes_no_used_nonce_look_unused(desk: Desk) -> None:
    await sent(desk)
    desk.proxy.rewrite["eth_getTransactionCount"] = lagging(0)
    for urls in ((desk.proxy.url, desk.proxy.node_url), (desk.proxy.node_url, desk.proxy.url)):
        async with nonces(desk, rpc_urls=urls) as chain:
            assert (await chain.view(CHAIN, desk.treasury, 0, [])).latest == 1


async def test_an_endpoint_that_does_not_answer_says_nothing_of_the_nonce(desk: Desk) -> None:
    desk.proxy.http_error["eth_getTransactionCount"] = (503, {})
    async with nonces(desk) as chain:
        with pytest.raises(LookFailed, match="503"):
            await chain.view(CHAIN, desk.treasury, 0, [])


async def test_what_one_pool_alone_knows_is_known(desk: Desk) -> None:
    tx_hash = "0x" + "ab" * 32
    desk.proxy.rewrite["eth_getTransactionByHash"] = lambda answer: {**answer, "result": {"hash": tx_hash}}
    async with nonces(desk) as chain:
        assert (await chain.view(CHAIN, desk.treasury, 0, [tx_hash])).known


async def test_who_used_it_is_said_of_a_final_block_alone(desk: Desk) -> None:
    tx_hash = await sent(desk)
    async with nonces(desk, finality_confirmations=3) as chain:
        who = {"fillers": [], "ours": [tx_hash], "effects": []}
        assert await chain.use(CHAIN, desk.treasury, 0, **who) is None
        assert (await chain.view(CHAIN, desk.treasury, 0, [])).taker is None
        desk.mine(2)
        use = await chain.use(CHAIN, desk.treasury, 0, **who)
        assert use is not None
        assert (use.tx_hash, use.used_by) == (tx_hash, UsedBy.ORIGINAL)
        assert (await chain.view(CHAIN, desk.treasury, 0, [])).taker == tx_hash


async def test_whose_it_is_follows_from_its_hash_or_from_what_it_does(desk: Desk) -> None:
    tx_hash = await sent(desk)
    desk.mine(5)
    mined = desk.faucet.call("eth_getTransactionByHash", tx_hash)
    effect = effect_hash(CHAIN, desk.treasury, 0, to=desk.token, value=0, data=mined["input"])
    other = effect_hash(CHAIN, desk.treasury, 0, to=FRIEND, value=0, data=mined["input"])
    async with nonces(desk) as chain:

        async def whose(**known: list[str]) -> UsedBy:
            use = await chain.use(CHAIN, desk.treasury, 0, **({"fillers": [], "ours": [], "effects": []} | known))
            assert use is not None
            return use.used_by

        assert await whose(fillers=[tx_hash]) is UsedBy.FILLER
        assert await whose(ours=[tx_hash]) is UsedBy.ORIGINAL
        assert await whose(effects=[effect]) is UsedBy.ORIGINAL
        assert await whose(effects=[other]) is UsedBy.ANOTHER


async def test_an_offer_replaces_what_offers_less_and_keeps_to_the_ceiling(desk: Desk) -> None:
    async with nonces(desk, max_fee_gwei=20) as chain:

        async def offered(*over: FeesOffered) -> FeesOffered:
            made = await chain.offer(CHAIN, desk.treasury, 0, node_id=NODE_ID, version=1, over=over)
            transaction = UnsignedTransaction.from_payload(made.payload)
            assert (transaction.to, transaction.value, transaction.data) == (desk.treasury, 0, "0x")
            assert (transaction.max_fee_per_gas, transaction.max_priority_fee_per_gas) == (
                made.fees.max_fee,
                made.fees.tip,
            )
            return made.fees

        market = await offered()
        assert market.tip <= market.max_fee
        dearer = await offered(FeesOffered(10 * GWEI + 1, 3 * GWEI + 1), FeesOffered(9 * GWEI, 4 * GWEI))
        assert dearer == FeesOffered(11_300_000_002, 4_520_000_000), "13 % over the dearest of each, rounded up"
        with pytest.raises(Conflict, match="max_fee_gwei: what fills the nonce must offer"):
            await offered(FeesOffered(18 * GWEI, GWEI))


async def test_a_sender_that_cannot_pay_is_told_before_anything_is_signed(desk: Desk) -> None:
    desk.faucet.call("anvil_setBalance", desk.treasury, hex(1000))
    async with nonces(desk) as chain:
        with pytest.raises(Conflict, match=r"has 0\.000000000000001 ETH"):
            await chain.offer(CHAIN, desk.treasury, 0, node_id=NODE_ID, version=1, over=())


async def test_a_lost_answer_to_a_handover_is_told_as_lost(desk: Desk) -> None:
    _, prepared = await desk.prepared()
    raw, tx_hash = str(prepared.signed_payload), str(prepared.provider_refs["tx_hash"])
    desk.proxy.lose_reply_to.add("eth_sendRawTransaction")
    async with nonces(desk, rpc_urls=(desk.proxy.url,)) as chain:
        lost = await chain.hand_over(CHAIN, raw, tx_hash, FeesOffered(10 * GWEI, 1))
        assert (lost.verdict, lost.outbid) == ("UNKNOWN", False)
        assert desk.proxy.calls["eth_sendRawTransaction"] == 1
        outbid = await chain.hand_over(CHAIN, raw, tx_hash, FeesOffered(1, 1))
        assert outbid.outbid, "no block takes so little"
