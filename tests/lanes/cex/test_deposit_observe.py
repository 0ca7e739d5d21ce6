"""Matching a transaction to what the venue credited."""

from __future__ import annotations

from typing import Any

import pytest

from qtg_dagster.domain.contract import ResultStatus

HASH = "0x" + "ab" * 32
ADDRESS = "0x" + "cd" * 20


def deposit(**fields: Any) -> dict[str, Any]:
    row = {"id": "d1", "coin": "USDC", "network": "ETH", "amount": "11.5", "status": 1, "txId": HASH}
    return {**row, "address": ADDRESS, "insertTime": 1774785600000, **fields}


@pytest.fixture
def waiting(lane: Any, work_order: Any) -> Any:
    async def look(*, method: str = "observe", **config: Any) -> Any:
        fields = {"amount": None, "destination": None, "tx_hash": HASH, "address": ADDRESS, **config}
        context = work_order({"action_type": "cex_deposit_status"}, **fields)
        return await getattr(lane.executor("deposit_observe"), method)(context)

    return look


async def test_a_usable_deposit_completes(venue: Any, waiting: Any) -> None:
    venue.deposits = [deposit(txId="AB" * 32, address=ADDRESS.upper().replace("0X", "0x"))]
    seen = await waiting()
    assert seen.status is ResultStatus.COMPLETED
    assert seen.provider_refs == {"deposit_id": "d1", "credited_amount": "11.5"}


@pytest.mark.parametrize("status", [0, 6, 8, 42])
async def test_what_is_not_usable_yet_is_in_progress(status: int, venue: Any, waiting: Any) -> None:
    venue.deposits = [deposit(status=status)]
    seen = await waiting()
    assert seen.status is ResultStatus.OBSERVING
    assert seen.error_code == ("UNLISTED_STATUS" if status == 42 else None)


@pytest.mark.parametrize(
    "change",
    [
        {"txId": "0x" + "ef" * 32},
        {"txId": "Off-chain transfer 1"},
        {"txId": None},
        {"network": "BSC"},
        {"address": "0x" + "ce" * 20},
    ],
)
async def test_other_deposits_are_not_ours(change: dict[str, Any], venue: Any, waiting: Any) -> None:
    venue.deposits = [deposit(**change)]
    assert (await waiting()).status is ResultStatus.OBSERVING


async def test_memos_tell_deposits_apart(venue: Any, waiting: Any) -> None:
    venue.deposits = [deposit(addressTag="7")]
    assert (await waiting(memo="007")).status is ResultStatus.OBSERVING
    assert (await waiting(memo="7")).status is ResultStatus.COMPLETED


async def test_several_rows_add_up(venue: Any, waiting: Any) -> None:
    venue.deposits = [deposit(id="d2", amount="1.5"), deposit(amount="10")]
    seen = await waiting(amount="11.5")
    assert seen.status is ResultStatus.COMPLETED
    assert seen.provider_refs == {"deposit_id": "d1,d2", "credited_amount": "11.5"}


async def test_an_amount_of_many_digits_is_told_to_the_last_one(venue: Any, waiting: Any) -> None:
    venue.deposits = [deposit(amount="123456789012.123456789012345678")]
    assert (await waiting()).provider_refs["credited_amount"] == "123456789012.123456789012345678"


async def test_a_part_is_not_the_whole(venue: Any, waiting: Any) -> None:
    venue.deposits = [deposit(amount="10")]
    seen = await waiting(amount="11.5")
    assert (seen.status, seen.error_code) == (ResultStatus.OBSERVING, "PARTLY_CREDITED")


async def test_one_locked_row_holds_the_sum_back(venue: Any, waiting: Any) -> None:
    venue.deposits = [deposit(id="d2", amount="1.5", status=6), deposit(amount="10")]
    assert (await waiting(amount="11.5")).status is ResultStatus.OBSERVING


@pytest.mark.parametrize(
    ("rows", "amount", "code"),
    [
        ([deposit(amount="12")], "11.5", "OTHER_AMOUNT"),
        ([deposit(), deposit(id="d2")], None, "SEVERAL_ON_RECORD"),
        ([deposit(), deposit(id="d2", status=2)], "23", "PARTLY_CREDITED"),
    ],
)
async def test_these_are_for_a_person(
    rows: list[dict[str, Any]], amount: str | None, code: str, venue: Any, waiting: Any
) -> None:
    venue.deposits = rows
    seen = await waiting(amount=amount)
    assert (seen.status, seen.error_code) == (ResultStatus.UNKNOWN, code)


@pytest.mark.parametrize("status", [2, 7])
async def test_a_deposit_the_venue_refused_has_failed(status: int, venue: Any, waiting: Any) -> None:
    venue.deposits = [deposit(status=status)]
    seen = await waiting()
    assert (seen.status, seen.error_code) == (ResultStatus.FAILED, "DEPOSIT_REFUSED")


async def test_every_page_is_read(venue: Any, waiting: Any) -> None:
    others = [deposit(id=f"o{number}", txId="0x" + f"{number:064x}") for number in range(2000)]
    venue.deposits = [*others, deposit()]
    assert (await waiting()).status is ResultStatus.COMPLETED
    assert [params["offset"] for _, path, params in venue.requests if path.endswith("hisrec")] == ["0", "1000", "2000"]


async def test_waiting_never_fails(venue: Any, waiting: Any, clock: Any) -> None:
    clock.advance(30 * 86400)
    assert (await waiting()).status is ResultStatus.OBSERVING
    assert (await waiting(method="recover")).status is ResultStatus.ACCEPTED


@pytest.mark.parametrize("tx_hash", ["Off-chain transfer 9", "d1", "0x12"])
async def test_what_is_no_hash_is_refused_at_once(tx_hash: str, waiting: Any) -> None:
    answer = await waiting(method="preflight", tx_hash=tx_hash)
    assert answer.status is ResultStatus.REJECTED
    assert answer.evidence["field"] == "config.tx_hash"
