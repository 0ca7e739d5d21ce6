"""KuCoin's pages: counted by the venue, shifted by what comes in, and believed only when they add up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from qtg_dagster.domain.cex_transfers import Facts, SeenTransfer, TransferKind, TransferStatus
from qtg_dagster.lanes.cex.record_pages import History, PageReader
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import Call, Window, WithdrawalRow
from qtg_dagster.lanes.cex.venues.kucoin import VENUE
from tests.lanes.cex.venues.test_kucoin import NOW, ROW, WINDOW, body


def test_a_page_names_coin_bounds_and_number() -> None:
    for asked in (VENUE.withdrawals("ETH", WINDOW, None), VENUE.deposits("ETH", WINDOW, None)):
        assert dict(asked.params) == {
            "currency": "ETH",
            "currentPage": "1",
            "pageSize": "500",
            "startAt": "1774785599000",
            "endAt": "1774785600000",
        }
    assert VENUE.withdrawals("ETH", WINDOW, "7").params["currentPage"] == "7"
    with pytest.raises(LookupFailed, match="one coin"):
        VENUE.withdrawals(None, WINDOW, None)


def test_pages_are_read_to_the_last_that_is_told_of() -> None:
    pages = VENUE.withdrawal_pages
    first = body(ROW, ROW, pageSize=2, totalNum=3, totalPage=2)
    assert pages.following(first, [ROW, ROW], None) == "2"
    last = body(ROW, currentPage=2, pageSize=2, totalNum=3, totalPage=2)
    assert pages.following(last, [ROW], "2") is None
    assert pages.following(body(totalPage=0), [], None) is None


@pytest.mark.parametrize(
    ("envelope", "rows", "says"),
    [
        ({"currentPage": 2}, [ROW], "OTHER_PAGE"),
        ({"totalNum": 9}, [ROW], "PAGES_END_EARLY"),
        ({"totalNum": 3, "totalPage": 3}, [], "PAGES_END_EARLY"),
        ({"totalPage": None}, [ROW], "MALFORMED"),
        ({"totalPage": "many"}, [ROW], "MALFORMED"),
    ],
)
def test_a_page_that_contradicts_itself_ends_nothing(
    envelope: dict[str, Any], rows: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(LookupFailed, match=says):
        VENUE.withdrawal_pages.following(body(*rows, **envelope), rows, None)


class Record:
    """A record in memory, newest first, that answers like the venue: `comes_in` rows before the second answer."""

    def __init__(self, count: int, comes_in: int = 0) -> None:
        self.rows = [self._row(number) for number in range(count)]
        self.comes_in, self.asked = comes_in, 0

    def _row(self, number: int) -> dict[str, Any]:
        return {**ROW, "id": f"w{number}", "createdAt": 1774785600000 - number}

    async def answer(self, call: Call) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 2:
            self.rows = [self._row(-1 - number) | {"id": f"new{number}"} for number in range(self.comes_in)] + self.rows
        number, size = int(call.params["currentPage"]), int(call.params["pageSize"])
        page = self.rows[(number - 1) * size : number * size]
        total = {"totalNum": len(self.rows), "totalPage": -(-len(self.rows) // size)}
        return body(*page, **total, currentPage=number, pageSize=size)


@pytest.mark.parametrize("comes_in", [0, 3])
@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1000, 1001])
async def test_a_record_is_kept_whole_however_full_its_pages_are(count: int, comes_in: int) -> None:
    record = Record(count, comes_in)
    history = History("withdrawals", VENUE.withdrawals, VENUE.read_withdrawals, VENUE.withdrawal_pages, seen)
    reader = PageReader(history, record.answer)
    await reader.read("ETH", Window(NOW - timedelta(days=1), NOW + timedelta(seconds=1)))
    assert set(reader.found) == {row["id"] for row in record.rows}
    assert history.rows_shift


def seen(row: WithdrawalRow) -> SeenTransfer:
    assert row.applied_at is not None
    facts = Facts(TransferStatus(row.state.value), row.raw_status, row.tx_id, row.amount, row.fee, None)
    return SeenTransfer(
        kind=TransferKind.WITHDRAWAL,
        row_key=row.withdrawal_id,
        client_id=row.client_id,
        internal=row.internal,
        occurred_at=row.applied_at,
        coin=row.coin,
        network=row.network,
        address=row.address,
        memo=row.memo,
        status_listed=row.status_listed,
        raw=row.raw,
        facts=facts,
    )
