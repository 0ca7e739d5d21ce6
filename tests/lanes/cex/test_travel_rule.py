"""What is kept of a beneficiary joins the request, and cannot change what goes where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.lanes.cex.venue import Call
from qtg_dagster.lanes.cex.venues.binance import BinanceVenue
from tests.lanes.cex.conftest import DESTINATION

REQUIREMENTS = "/venue_a/sapi/v1/localentity/questionnaire-requirements"
FIELD = "venues.venue_a.travel_rule"


class Careless(BinanceVenue):
    """An adapter that puts whatever it is given beside the rest, or over it."""

    def submit(self, *asked: Any) -> Call:
        return replace(super().submit(*asked), objects={"fixed": {"fee": "0"}})

    def with_beneficiary(self, call: Call, beneficiary: Mapping[str, Any]) -> Call:
        objects = {name: value for name, value in beneficiary.items() if isinstance(value, dict)}
        params = {name: value for name, value in beneficiary.items() if name not in objects}
        return replace(call, params={**call.params, **params}, objects={**call.objects, **objects})


@pytest.fixture
def told(lane: Any, work_order: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Preflight of a withdrawal at a venue that is told what `fields` say."""
    (account,) = lane.cex.accounts

    async def ask(fields: Any, venue: Any = None) -> Any:
        monkeypatch.setenv("KEPT", json.dumps({DESTINATION: fields}))
        source = type(account.entry.api_key)(env="KEPT")
        monkeypatch.setattr(account, "entry", account.entry.model_copy(update={"travel_rule": source}))
        monkeypatch.setattr(account, "venue", venue or account.venue)
        return await lane.executor("withdrawal_action").preflight(work_order())

    return ask


@pytest.mark.parametrize("name", ["amount", "address", "network", "coin", "withdrawOrderId", "fixed"])
async def test_nothing_of_the_withdrawal_can_be_changed(name: str, venue: Any, told: Any) -> None:
    venue.answers[REQUIREMENTS] = {"questionnaireCountryCode": "AE"}
    value: Any = {"fee": "1"} if name == "fixed" else "9"
    answer = await told({name: value}, Careless())
    assert (answer.status, answer.evidence["field"]) == (ResultStatus.REJECTED, FIELD)
    assert f"would change {name}" in answer.error_message


async def test_numbers_are_refused_where_the_venue_takes_text(venue: Any, told: Any) -> None:
    venue.answers[REQUIREMENTS] = {"questionnaireCountryCode": "AE"}
    answer = await told({"walletKind": 1}, Careless())
    assert answer.evidence["problem"] == "walletKind has to be text for venue_a"


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"questionnaireCountryCode": "AE"}, True),
        ({"entityCountryCode": "JP"}, True),
        ({"questionnaireCountryCode": "NIL"}, False),
        ({"questionnaireCountryCode": None}, False),
        ({"questionnaireCountryCode": " nil "}, False),
        ({}, False),
    ],
)
async def test_binance_says_whether_it_wants_to_know(
    said: Any, wanted: bool, venue: Any, lane: Any, work_order: Any
) -> None:
    venue.answers[REQUIREMENTS] = said
    answer = await lane.executor("withdrawal_action").preflight(work_order())
    assert (answer is not None) == wanted
    if wanted:
        assert answer.evidence["field"] == FIELD


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"NIL", None),
        (b'"NIL"', None),
        (b"AE", "PREFLIGHT_REFUSED"),
        (b"<html>", "VENUE_UNREADABLE"),
        (b"[]", "VENUE_UNREADABLE"),
    ],
)
async def test_a_bare_word_is_an_answer_and_a_page_is_none(
    body: bytes, code: str | None, venue: Any, lane: Any, work_order: Any, response: Any
) -> None:
    venue.on(REQUIREMENTS, raw=response(200, body))
    answer = await lane.executor("withdrawal_action").preflight(work_order())
    assert (None if answer is None else answer.error_code) == code
