"""What Gate's adapter makes of chains and fees, keys, wallets and addresses."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import CoinBalance
from qtg_dagster.lanes.cex.venues.gate import VENUE
from tests.lanes.cex.venues.bench_gate import BENCH

CHAIN = {
    "chain": "TRX",
    "is_disabled": 0,
    "is_deposit_disabled": 1,
    "is_withdraw_disabled": 0,
    "is_tag": 0,
    "decimal": "6",
}
LIMITS = {
    "currency": "USDT",
    "withdraw_percent": "0%",
    "withdraw_fix": "9",
    "withdraw_day_limit": "100000",
    "withdraw_day_limit_remain": "50000",
    "withdraw_amount_mini": "1.5",
    "withdraw_eachtime_limit": "20000",
    "withdraw_fix_on_chains": {"TRX": "1", "BSC": "0"},
    "withdraw_percent_on_chains": {"TRX": "0%", "BSC": "0.5%"},
}


def test_fees_are_told_by_chain_and_limits_by_coin() -> None:
    bsc, sol = {**CHAIN, "chain": "bsc", "decimal": "8", "is_tag": 1}, {**CHAIN, "chain": "SOL", "is_disabled": 1}
    closed = {**CHAIN, "chain": "ETH", "is_withdraw_disabled": 1}
    strange = {**LIMITS, "currency": "GT", "withdraw_fix_on_chains": {"TRX": "7"}}
    of_tron, of_bsc, of_sol, of_eth = VENUE.read_networks([[CHAIN, bsc, sol, closed], [strange, LIMITS]], "USDT")
    assert (of_tron.network, of_tron.fee, of_tron.step) == ("TRX", Decimal(1), Decimal("0.000001"))
    assert (of_tron.minimum, of_tron.maximum, of_tron.withdraw_enabled) == (Decimal("1.5"), Decimal(20000), True)
    assert (of_bsc.network, of_bsc.fee, of_bsc.memo_required, of_bsc.memo_allowed) == ("BSC", Decimal(0), True, True)
    assert (of_bsc.fee_rate, of_bsc.fee_of(Decimal(200))) == (Decimal("0.005"), Decimal(1))
    assert (of_sol.fee, of_sol.withdraw_enabled, of_eth.withdraw_enabled) == (Decimal(9), False, False)
    assert not of_tron.memo_allowed


def test_what_is_left_of_the_day_is_a_limit_and_zero_is_none() -> None:
    def most(**changed: str) -> Decimal | None:
        (rules,) = VENUE.read_networks([[CHAIN], [{**LIMITS, **changed}]], "USDT")
        return rules.maximum

    assert most(withdraw_day_limit_remain="7") == 7
    assert most(withdraw_day_limit_remain="0") == 0
    assert most(withdraw_day_limit="0", withdraw_day_limit_remain="0") == 20000
    assert most(withdraw_eachtime_limit="0") == 50000
    assert most(withdraw_day_limit="0", withdraw_eachtime_limit="0") is None


@pytest.mark.parametrize(
    "bodies",
    [
        ([CHAIN], []),
        ([CHAIN], [LIMITS, LIMITS]),
        ([CHAIN], [{**LIMITS, "withdraw_percent_on_chains": {"TRX": "some"}}]),
        ([{**CHAIN, "decimal": None}], [LIMITS]),
        ({"label": "INVALID_CURRENCY"}, [LIMITS]),
    ],
)
def test_half_told_networks_are_none(bodies: Any) -> None:
    with pytest.raises(LookupFailed):
        VENUE.read_networks(bodies, "USDT")


def key(state: int = 1, **rights: bool) -> dict[str, Any]:
    return {"state": state, "perms": [{"name": name, "read_only": only} for name, only in rights.items()]}


def test_a_key_is_refused_only_where_no_key_of_the_account_may_withdraw() -> None:
    may, may_not, untold = key(withdrawal=False, spot=True), key(withdrawal=True), key(spot=False)
    for body in ([may], [may_not, may], [untold], [untold, untold]):
        assert VENUE.read_permission_problem(body) is None
    assert "withdrawals" in str(VENUE.read_permission_problem([may_not]))
    assert "withdrawals" in str(VENUE.read_permission_problem([may_not, untold]))
    assert "frozen" in str(VENUE.read_permission_problem([key(2, withdrawal=False), key(3, withdrawal=False)]))
    with pytest.raises(LookupFailed):
        VENUE.read_permission_problem([{"state": 1}])


def test_balances_are_free_or_locked() -> None:
    (held,) = VENUE.read_balances([{"currency": "ETH", "available": "1.5", "locked": "0.25"}])
    assert held == CoinBalance("ETH", Decimal("1.5"), Decimal("0.25"), Decimal(0))


def test_the_other_wallets() -> None:
    assert set(VENUE.other_wallets()) == {"margin", "futures-usdt", "futures-btc", "delivery-usdt", "options"}
    doge = {"currency": "DOGE", "available": "1", "locked": "2"}
    dollars = {"currency": "USDT", "available": "0.5", "locked": "0"}
    pairs = [{"base": doge, "quote": dollars}, {"base": doge, "quote": dollars}]
    assert VENUE.read_other_wallet("margin", pairs) == (
        CoinBalance("DOGE", Decimal(2), Decimal(4), Decimal(0)),
        CoinBalance("USDT", Decimal(1), Decimal(0), Decimal(0)),
    )
    futures = {"currency": "USDT", "total": "12.5", "available": "2.5"}
    assert VENUE.read_other_wallet("futures-usdt", futures) == (
        CoinBalance("USDT", Decimal("2.5"), Decimal(10), Decimal(0)),
    )
    for wallet, body in (("margin", {}), ("margin", [{"base": doge}]), ("options", [futures]), ("options", {})):
        with pytest.raises(LookupFailed):
            VENUE.read_other_wallet(wallet, body)


def test_addresses_saved_and_our_own() -> None:
    saved = {"currency": "usdt", "chain": "TRX", "address": "T1", "name": "desk", "tag": "", "verified": "1"}
    ours, unproven = VENUE.read_address_book([saved, {**saved, "verified": "0", "tag": "007"}])
    assert (ours.name, ours.network, ours.address, ours.memo, ours.usable) == ("desk", "TRX", "T1", None, True)
    assert (unproven.memo, unproven.usable) == ("007", False)
    own = {"chain": "TRX", "address": "T2", "payment_id": "", "obtain_failed": 0}
    body = {"multichain_addresses": [own, {**own, "chain": "EOS", "payment_id": "7"}, {**own, "obtain_failed": 1}]}
    found = [(row.network, row.memo) for row in VENUE.read_deposit_addresses(body, "TRX")]
    assert found == [("TRX", None), ("EOS", "7")]


async def test_wallets_that_were_never_opened_leave_the_picture_whole(open_desk: Any) -> None:
    (fetcher,) = (await open_desk(BENCH)).lane.balance_fetchers
    readings = await fetcher.fetch()
    assert {reading.wallet for reading in readings} == {"spot", *VENUE.other_wallets()}
    assert all(reading.complete for reading in readings)
