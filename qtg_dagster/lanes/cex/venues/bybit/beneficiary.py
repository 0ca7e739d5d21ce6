"""What Bybit is told of a beneficiary: answers to its questionnaire, or the older fields one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.lanes.cex.hidden import texts_in
from qtg_dagster.lanes.cex.reply import exact_json
from qtg_dagster.lanes.cex.venue import Call

_QUESTIONNAIRE, _PURPOSE = "questionnaire", "transactionPurpose"
_MOST_BYTES = 16_384
_OF_BENEFICIARY = (
    *("Name", "LegalType", "WalletType", "UnhostedWalletType", "TransactionPurpose"),
    *("RepresentativeFirstName", "RepresentativeLastName", "DateOfBirth", "PlaceOfBirth"),
    *("PoiNumber", "PoiType", "PoiIssuingCountry", "PoiExpiredDate"),
    *("AddressCountry", "AddressState", "AddressCity", "AddressBuilding", "AddressStreet", "AddressPostalCode"),
)
FIELDS = frozenset({"vaspEntityId", *(f"beneficiary{name}" for name in _OF_BENEFICIARY)})


def telling(call: Call, kept: Mapping[str, Any]) -> Call:
    """The request with what is kept. Raises `InvalidInput` for what the venue does not take, by name alone."""
    if _QUESTIONNAIRE in kept:
        if len(kept) > 1:
            raise _wrong("the questionnaire takes the place of all else", "Keep it alone.")
        answers = kept[_QUESTIONNAIRE]
        return _with_answers(call, exact_json(answers) if isinstance(answers, str) else answers)
    unknown = sorted(set(kept) - FIELDS - {_PURPOSE})
    if unknown:
        raise _wrong(f"Bybit does not ask for {', '.join(unknown)}", f"Use {_QUESTIONNAIRE}, or its older fields.")
    numbers = sorted(name for name, value in kept.items() if not isinstance(value, str))
    if numbers:
        raise _wrong(f"{', '.join(numbers)} has to be text", "Put it in quotation marks.")
    beneficiary = {name: value for name, value in kept.items() if name != _PURPOSE}
    params = {**call.params, _PURPOSE: kept[_PURPOSE]} if _PURPOSE in kept else call.params
    objects = {**call.objects, "beneficiary": beneficiary} if beneficiary else call.objects
    return replace(call, params=params, objects=objects)


def _with_answers(call: Call, answers: Any) -> Call:
    """The venue wants JSON inside a text; what stands in it is hidden word by word all the same."""
    if not isinstance(answers, Mapping) or not answers:
        raise _wrong(f"{_QUESTIONNAIRE} is no JSON object with answers", "Write it by zone as the venue documents.")
    spelt = canonical_json(dict(answers))
    if len(spelt.encode()) > _MOST_BYTES:
        raise _wrong(f"{_QUESTIONNAIRE} is longer than {_MOST_BYTES} bytes", "Shorten it.")
    private = (*call.private, *texts_in(answers))
    return replace(call, params={**call.params, _QUESTIONNAIRE: spelt}, private=private)


def _wrong(problem: str, fix: str) -> InvalidInput:
    return InvalidInput("travel_rule", problem, fix)
