"""Venues whose rows never say where money went, and whose record is read from the newest row on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest

from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.cex.accounts import VenueAccount, VenueAccounts
from qtg_dagster.lanes.cex.deposit_observe import DepositConfig, is_ours
from qtg_dagster.lanes.cex.histories import deposits_since, withdrawals_between, withdrawals_by_ids
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.venue import Call, DepositRow, RowState, Window
from qtg_dagster.lanes.cex.venues.kraken import VENUE as KRAKEN
from qtg_dagster.lanes.cex.venues.upbit import VENUE as UPBIT

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
HASH = "0x" + "ab" * 32
ROWS = 450


class Record(VenueAccount):
    """An account at Upbit whose record is in memory: a row a minute, the newest now, and one out of order."""

    def __init__(self, kind: str) -> None:
        entry = Inventory.model_validate(
            {
                "assets": {"ETH": {"symbol": "ETH", "decimals": 18}},
                "chains": {"eip155:1": {"name": "E", "rpc_urls": ["http://127.0.0.1:9"], "native_asset": "ETH"}},
                "venues": {
                    "desk": {
                        "wire": "upbit",
                        "api_key": {"env": "K"},
                        "api_secret": {"env": "S"},
                        "assets": {"ETH": "ETH"},
                        "networks": {"eip155:1": "ETH"},
                    }
                },
            }
        )
        self.inventory = entry
        super().__init__("desk", entry.venues["desk"])
        self.rows = [self._row(kind, number, NOW - timedelta(minutes=number)) for number in range(ROWS)]
        self.rows[120]["created_at"] = (NOW - timedelta(days=2)).isoformat()
        self.pages: list[str] = []
        self.replies: list[RawReply] = []

    def _row(self, kind: str, number: int, at: datetime) -> dict[str, Any]:
        row = {"type": kind, "uuid": f"u{number}", "currency": "ETH", "net_type": "ETH", "state": "PROCESSING"}
        return {**row, "created_at": at.isoformat(), "amount": "1", "fee": "0"}

    async def read(self, call: Call) -> Any:
        self.pages.append(call.params["page"])
        first = (int(call.params["page"]) - 1) * 100
        return self.rows[first : first + 100]

    async def call(self, call: Call) -> RawReply:  # noqa: ARG002 - the answers are the test's
        return self.replies.pop(0)


async def test_pages_are_read_until_one_lies_before_the_window_and_rows_outside_are_left_out() -> None:
    account = Record("withdraw")
    window = Window(NOW - timedelta(minutes=150), NOW - timedelta(minutes=10))
    found = await withdrawals_between(account, "ETH", window)
    assert [row.withdrawal_id for row in found] == [f"u{number}" for number in range(10, 151) if number != 120]
    assert account.pages == ["1", "2", "3"]


async def test_a_row_out_of_order_ends_no_reading() -> None:
    account = Record("withdraw")
    for number in range(100, 199):
        account.rows[number]["created_at"] = (NOW - timedelta(days=2)).isoformat()
    window = Window(NOW - timedelta(minutes=205), NOW)
    found = await withdrawals_between(account, "ETH", window)
    assert {"u99", "u199", "u205"} < {row.withdrawal_id for row in found}
    assert account.pages == ["1", "2", "3", "4"]


async def test_a_row_without_a_time_is_kept_and_ends_no_reading() -> None:
    account = Record("withdraw")
    account.rows[250]["created_at"] = ""
    found = await withdrawals_between(account, "ETH", Window(NOW - timedelta(minutes=50), NOW))
    assert "u250" not in {row.withdrawal_id for row in found}, "page 2 lies before the window as a whole"
    account.pages.clear()
    account.rows[150]["created_at"] = ""
    found = await withdrawals_between(account, "ETH", Window(NOW - timedelta(minutes=50), NOW))
    assert {"u150", "u250"} < {row.withdrawal_id for row in found}
    assert account.pages == ["1", "2", "3", "4"]


async def test_deposits_are_read_in_the_same_way() -> None:
    account = Record("deposit")
    found = await deposits_since(account, "ETH", NOW - timedelta(minutes=30), NOW)
    assert [row.deposit_id for row in found] == [f"u{number}" for number in range(31)]
    assert account.pages == ["1", "2"]


def answer(headers: Mapping[str, str], status: int = 200) -> RawReply:
    return RawReply(sent=True, status=status, headers=dict(headers), body_text="[]", json=[])


async def test_the_clock_is_read_from_the_date_of_a_whole_answer() -> None:
    account = cast("Any", Record("withdraw"))
    account.transport = account
    told = {"Date": "Sun, 29 Mar 2026 12:00:00 GMT"}
    account.replies = [answer(told), answer({}), answer({"Date": "yesterday"}), answer(told, 502)]
    assert await account.server_time() == NOW + timedelta(milliseconds=500)
    for code in ("NO_DATE", "NO_DATE", "HTTP_502"):
        with pytest.raises(LookupFailed, match=code):
            await account.server_time()


DEPOSIT = DepositRow(
    deposit_id="d1",
    coin="ETH",
    network="ETH",
    address=None,
    memo=None,
    amount=Decimal(1),
    state=RowState.DONE,
    raw_status="ACCEPTED",
    status_listed=True,
    tx_id="AB" * 32,
    inserted_at=NOW,
    raw={},
)


@pytest.mark.parametrize("memo", [None, "7", "no-memo"])
def test_a_deposit_that_shows_no_destination_is_told_by_its_transaction(memo: str | None) -> None:
    account = VenueAccounts(Record("deposit").inventory).account("desk")
    config = DepositConfig(venue="desk", asset="ETH", chain="eip155:1", tx_hash=HASH, address="0xours", memo=memo)
    assert is_ours(config, account, DEPOSIT)
    for other in ({"tx_id": "cd" * 32}, {"tx_id": None}, {"coin": "USDC"}, {"network": "ARB"}):
        assert not is_ours(config, account, replace(DEPOSIT, **cast("Any", other)))


def test_who_shows_destinations_has_to_show_this_one() -> None:
    account = VenueAccounts(Record("deposit").inventory).account("desk")
    account.venue = KRAKEN
    config = DepositConfig(venue="desk", asset="ETH", chain="eip155:1", tx_hash=HASH, address="0xours")
    assert (KRAKEN.rows_show_destination, UPBIT.rows_show_destination) == (True, False)
    shown = replace(DEPOSIT, network=None, address="0xours")
    assert is_ours(config, account, shown)
    assert not is_ours(config, account, replace(shown, address=None))


async def test_nothing_under_an_id_is_an_empty_look_and_any_other_refusal_is_none() -> None:
    account = cast("Any", Record("withdraw"))
    account.transport, account.read = account, super(Record, account).read
    named = [{"error": {"name": name, "message": "-"}} for name in ("withdraw_not_found", "not_found")]
    account.replies = [RawReply(sent=True, status=404, json=body) for body in named]
    assert await withdrawals_by_ids(account, ["u1"], "ETH", NOW) == ()
    with pytest.raises(LookupFailed, match="HTTP_404"):
        await withdrawals_by_ids(account, ["u1"], "ETH", NOW)
