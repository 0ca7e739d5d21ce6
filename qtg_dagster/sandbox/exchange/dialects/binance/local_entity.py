"""Binance's local entities: withdrawals with a questionnaire, on a record of their own, under numbers of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from qtg_dagster.sandbox.exchange.dialect import Access, Endpoint, Role
from qtg_dagster.sandbox.exchange.dialects.binance.rows import limit_of, window, withdrawal
from qtg_dagster.sandbox.exchange.dialects.binance.signing import BinanceParameters
from qtg_dagster.sandbox.exchange.histories import Page, Row
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder

_FIRST_NUMBER = 1_000_000
_MAX_IDS = 45
_NOT_TAKEN = {"accpted": False, "info": "The questionnaire is not attested."}


class LocalEntity:
    """What an account under the travel rule is asked, and how it withdraws."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue

    def endpoints(self) -> Sequence[Endpoint]:
        one, two = "/sapi/v1/localentity", "/sapi/v2/localentity"
        return (
            Endpoint("GET", f"{one}/questionnaire-requirements", self._requirements),
            Endpoint("POST", f"{one}/withdraw/apply", self._apply, Role.WITHDRAW, Access.WITHDRAW),
            Endpoint("GET", f"{two}/withdraw/history", self._history, Role.WITHDRAWALS),
        )

    def _requirements(self, _: BinanceParameters) -> dict[str, str]:
        return {"questionnaireCountryCode": "AE" if self._venue.conditions.travel_rule else "NIL"}

    def _apply(self, parameters: BinanceParameters) -> dict[str, Any]:
        """One that is not attested is not taken, and answered with HTTP 200 and a number all the same."""
        answers = _answers(parameters.required("questionnaire"))
        order = asked_order(parameters)
        if answers.get("isAttested") is not True:
            return {"trId": _FIRST_NUMBER, **_NOT_TAKEN}
        key = self._venue.withdraw(order, told=True)
        (row,) = self._venue.desk.rows_of(key)
        return {"trId": _number(row), "accpted": True, "info": "Withdraw request accepted"}

    def _history(self, parameters: BinanceParameters) -> list[dict[str, Any]]:
        order_id = parameters.text("withdrawOrderId")
        start, end = window(parameters, 90 if order_id is None else 7, self._venue.now_ms())
        page = Page(
            limit=limit_of(parameters),
            offset=parameters.whole("offset") or 0,
            start_ms=start,
            end_ms=end,
            coin=parameters.text("coin"),
            network=parameters.text("network"),
            order_id=order_id,
            tx_hash=parameters.text("txId"),
            numbers=_numbers(parameters.text("trId")),
            told=True,
        )
        return self._venue.shown(self._venue.withdrawals(page), _row)


def asked_order(parameters: BinanceParameters) -> WithdrawalOrder:
    """The withdrawal that a request asks for, with a questionnaire or without."""
    return WithdrawalOrder(
        coin=parameters.required("coin"),
        address=parameters.required("address"),
        amount=parameters.required("amount"),
        network=parameters.text("network"),
        tag=parameters.text("addressTag"),
        order_id=parameters.text("withdrawOrderId"),
    )


def _answers(questionnaire: str) -> dict[str, Any]:
    try:
        answers = json.loads(questionnaire)
    except ValueError:
        answers = None
    if not isinstance(answers, dict) or not answers:
        raise Refusal(-4103, "Questionnaire format not valid.")
    return answers


def _numbers(asked: str | None) -> tuple[int, ...] | None:
    if asked is None:
        return None
    found = asked.split(",")
    if len(found) > _MAX_IDS or not all(item.isdigit() for item in found):
        raise Refusal(-1102, f"Parameter 'trId' holds more than {_MAX_IDS} ids, or what is none.")
    return tuple(int(item) - _FIRST_NUMBER for item in found)


def _number(row: Any) -> int:
    return _FIRST_NUMBER + int(row["seq"])


def _row(row: Row) -> dict[str, Any]:
    shown = withdrawal(row)
    status = shown.pop("status")
    return {**shown, "trId": _number(row), "withdrawalStatus": status, "travelRuleStatus": 0, "questionnaire": "{}"}
