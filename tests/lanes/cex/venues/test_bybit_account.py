"""What Bybit says of the account, its address book and its key, and what it is told of beneficiaries."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venues.bybit import VENUE
from qtg_dagster.lanes.cex.withdrawal_destination import as_saved
from tests.lanes.cex.venues.test_bybit import ADDRESS, NOW, ORDER, body


def test_a_beneficiary_is_told_in_the_older_fields_beside_the_purpose() -> None:
    call = VENUE.submit(ORDER, NOW)
    kept = {"vaspEntityId": "x", "beneficiaryName": "y", "transactionPurpose": "rent of the office in May"}
    told = VENUE.with_beneficiary(call, kept)
    assert told.objects == {**call.objects, "beneficiary": {"vaspEntityId": "x", "beneficiaryName": "y"}}
    assert told.params == {**call.params, "transactionPurpose": "rent of the office in May"}


@pytest.mark.parametrize("spelt", [False, True])
def test_the_questionnaire_is_json_in_a_text_and_its_words_are_private(spelt: bool) -> None:
    answers = {"walletType": 0, "legalType": "individual", "firstName": "Wilhelmina", "lastName": "Quistgaard"}
    call = VENUE.submit(ORDER, NOW)
    told = VENUE.with_beneficiary(call, {"questionnaire": json.dumps(answers) if spelt else answers})
    assert json.loads(told.params["questionnaire"]) == answers
    assert told.objects == call.objects
    assert {"Wilhelmina", "Quistgaard"} <= set(told.private)


@pytest.mark.parametrize(
    ("kept", "problem"),
    [
        ({"questionnaire": {"legalType": "x"}, "beneficiaryName": "y"}, "takes the place"),
        ({"questionnaire": "Wilhelmina"}, "no JSON object"),
        ({"questionnaire": {}}, "no JSON object"),
        ({"questionnaire": {"lastName": "Wilhelmina" * 1639}}, "longer than"),
        ({"benificiaryName": "Wilhelmina"}, "benificiaryName"),
        ({"beneficiary": {"beneficiaryName": "Wilhelmina"}}, "does not ask"),
        ({"beneficiaryPoiNumber": 7}, "beneficiaryPoiNumber has to be text"),
    ],
)
def test_what_the_venue_does_not_take_is_named_without_a_word_of_it(kept: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as raised:
        VENUE.with_beneficiary(VENUE.submit(ORDER, NOW), kept)
    assert "Wilhelmina" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"readOnly": 1}, "may not withdraw"),
        ({"permissions": {"Wallet": ["AccountTransfer"]}}, "may not withdraw"),
        ({"permissions": {}}, "may not withdraw"),
        ({"isMaster": False}, "master account"),
    ],
)
def test_the_key_has_to_be_a_master_accounts_that_may_withdraw(change: dict[str, Any], problem: str | None) -> None:
    key = {"readOnly": 0, "permissions": {"Wallet": ["Withdraw"]}, "isMaster": True, **change}
    found = VENUE.read_permission_problem(body(key))
    assert found is None if problem is None else problem in str(found)


def test_only_a_proven_address_of_the_book_is_usable_and_keeps_its_spelling() -> None:
    row = {"coin": "ETH", "chain": "ETH", "address": ADDRESS, "tag": "", "status": 0, "verified": 1}
    good, new, unproven = VENUE.read_address_book(body({"rows": [row, {**row, "status": 1}, {**row, "verified": 0}]}))
    assert (good.name, good.usable, new.usable, unproven.usable) == (ADDRESS, True, False, False)
    (universal,) = VENUE.read_address_book(body({"rows": [{**row, "coin": "baseCoin"}]}))
    assert (good.coin, universal.coin) == ("ETH", None)


def test_the_book_is_read_page_by_page_and_then_the_addresses_for_all_coins() -> None:
    call, asked = VENUE.address_book("ETH"), []
    for token in ("50", "", "60", ""):
        asked.append((call.params["coin"], call.params.get("cursor")))
        following = VENUE.more_of_address_book(call, body({"rows": [], "nextPageCursor": token}))
        call = following or call
    assert asked == [("ETH", None), ("ETH", "50"), ("baseCoin", None), ("baseCoin", "60")]
    assert following is None


def of_book(*answers: Any) -> Any:
    """A withdrawal at an account whose address book is answered so, the last answer again and again."""
    left = list(answers)

    async def read(_: Any) -> Any:
        return left.pop(0) if len(left) > 1 else left[0]

    return SimpleNamespace(account=SimpleNamespace(venue=VENUE, key="bybit_main", read=read), order=ORDER)


async def test_an_address_for_all_coins_is_found_after_the_coins_own() -> None:
    other = {"coin": "ETH", "chain": "ETH", "address": "0x" + "cd" * 20, "tag": "", "status": 0, "verified": 1}
    ours = {**other, "coin": "baseCoin", "address": ADDRESS}
    first, second = (body({"rows": [row], "nextPageCursor": ""}) for row in (other, ours))
    assert (await as_saved(of_book(first, second))).saved_as == ADDRESS
    with pytest.raises(InvalidInput, match="not in the address book"):
        await as_saved(of_book(first, body({"rows": [{**ours, "chain": "ARBI"}], "nextPageCursor": ""})))


async def test_a_book_without_an_end_is_not_read_for_ever() -> None:
    with pytest.raises(LookupFailed, match="TOO_MANY_ROWS"):
        await as_saved(of_book(body({"rows": [], "nextPageCursor": "same"})))
