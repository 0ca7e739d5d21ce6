"""Bybit's wire (v5): the fee comes on top, addresses are saved ones, every answer comes with HTTP 200."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any
from uuid import uuid4

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Credentials, Dialect, Endpoint, Role
from qtg_dagster.sandbox.exchange.dialects.bybit.accounts import Accounts
from qtg_dagster.sandbox.exchange.dialects.bybit.rows import Records
from qtg_dagster.sandbox.exchange.dialects.bybit.signing import BybitParameters, authenticate, parameters_of
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder

_REQUEST_ID = re.compile(r"[A-Za-z0-9]{1,32}")
_DEDUCTED = 1
_LONGEST_ANSWERS = 16_384


class BybitDialect(Dialect):
    """Bybit documents that a requestId is taken once."""

    order_id_name = "requestId"
    repeats = "refuse"
    ethereum = "ETH"

    @classmethod
    def new_credentials(cls) -> Credentials:
        return Credentials(token_hex(9), token_hex(18))

    def endpoints(self) -> Sequence[Endpoint]:
        accounts, records = Accounts(self.venue), Records(self.venue)
        asset, public = "/v5/asset", Access.PUBLIC
        return (
            Endpoint("GET", "/v5/market/time", self._time, Role.TIME, public),
            Endpoint("GET", "/v5/system/status", self._system_status, Role.STATUS, public),
            Endpoint("GET", "/v5/user/query-api", accounts.key, Role.PERMISSIONS),
            Endpoint("GET", f"{asset}/coin/query-info", accounts.coins, Role.NETWORKS),
            Endpoint("GET", f"{asset}/transfer/query-account-coins-balance", accounts.funding, Role.BALANCES),
            Endpoint("GET", "/v5/account/wallet-balance", accounts.unified),
            Endpoint("GET", f"{asset}/deposit/query-address", accounts.deposit_addresses, Role.DEPOSIT_ADDRESS),
            Endpoint("GET", f"{asset}/deposit/query-record", records.deposits, Role.DEPOSITS),
            Endpoint("GET", f"{asset}/deposit/query-internal-record", records.internal_deposits),
            Endpoint("GET", f"{asset}/withdraw/query-record", records.withdrawals, Role.WITHDRAWALS),
            Endpoint("GET", f"{asset}/withdraw/query-address", accounts.address_book, Role.ADDRESS_BOOK),
            Endpoint("POST", f"{asset}/withdraw/create", self._withdraw, Role.WITHDRAW, Access.WITHDRAW),
        )

    def read(self, request: VenueRequest) -> BybitParameters:
        return parameters_of(request)

    def authenticate(self, request: VenueRequest) -> BybitParameters:
        return authenticate(request, self.venue.config, self.venue.now_ms())

    def decline(self, declined: Declined) -> Refusal:
        code, message = _WORDS[declined.reason]
        return Refusal(code, message, 404 if declined.reason is Reason.NO_SUCH_ENDPOINT else 200)

    def not_from_here(self) -> Refusal:
        return Refusal("10010", "Unmatched IP, please check your API key's bound IP addresses.", 200)

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        return self._envelope(int(refusal.code), refusal.message, {})

    def success_body(self, result: Any) -> dict[str, Any]:
        return self._envelope(0, "success", result)

    def _envelope(self, code: int, message: str, result: Any) -> dict[str, Any]:
        return {"retCode": code, "retMsg": message, "result": result, "retExtInfo": {}, "time": self.venue.now_ms()}

    def withdrawal_id(self) -> str:
        return str(uuid4().int % 10**9)

    def _time(self, _: BybitParameters) -> dict[str, str]:
        now = self.venue.now_ms()
        return {"timeSecond": str(now // 1000), "timeNano": str(now * 1_000_000)}

    def _system_status(self, _: BybitParameters) -> dict[str, Any]:
        """Empty when there is no maintenance."""
        if not self.venue.conditions.maintenance:
            return {"list": []}
        now = self.venue.now_ms()
        times = {"begin": str(now - 60_000), "end": str(now + 3_600_000)}
        row = {"id": "1", "title": "Maintenance", "state": "ongoing", "serviceTypes": [1, 2], "env": 1, **times}
        return {"list": [row]}

    def _withdraw(self, parameters: BybitParameters) -> dict[str, str]:
        coin, amount, address = (parameters.required(name) for name in ("coin", "amount", "address"))
        if parameters.whole("timestamp") is None or parameters.text("accountType") not in ("FUND", "FUND,UTA"):
            raise parameters.malformed("timestamp or accountType")
        request_id, fee_type = parameters.text("requestId"), parameters.whole("feeType") or 0
        if request_id is not None and not _REQUEST_ID.fullmatch(request_id):
            raise parameters.malformed("requestId")
        order = WithdrawalOrder(
            coin=coin,
            address=address,
            amount=amount,
            network=parameters.required("chain"),
            tag=parameters.text("tag"),
            order_id=request_id,
            includes_fee=fee_type == _DEDUCTED,
        )
        saved = [item.address for item in self.venue.config.address_book]
        if saved and address not in saved:  # the book tells upper from lower case
            raise Declined(Reason.ADDRESS_NOT_SAVED)
        return {"id": self.venue.withdraw(order, told=_tells(parameters))}


def _tells(parameters: BybitParameters) -> bool:
    """Whether the beneficiary is told: in the questionnaire, which is JSON in a text, or in the older fields."""
    answers = parameters.text("questionnaire")
    if answers is None:
        return parameters.object("beneficiary") is not None
    if len(answers.encode()) > _LONGEST_ANSWERS or not _is_json_object(answers):
        raise parameters.malformed("questionnaire")
    return True


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


_WORDS: Mapping[Reason, tuple[str, str]] = {
    Reason.UNKNOWN_COIN: ("131002", "Parameter error: coin"),
    Reason.UNKNOWN_NETWORK: ("131002", "Parameter error: chain"),
    Reason.NETWORK_CLOSED: ("131097", "Withdrawal of this currency has been closed"),
    Reason.BAD_ADDRESS: ("131002", "Parameter error: address"),
    Reason.TAG_NOT_TAKEN: ("131002", "Parameter error: tag"),
    Reason.ADDRESS_NOT_SAVED: ("131093", "The withdrawal address is not in the whitelist"),
    Reason.MALFORMED_AMOUNT: ("131002", "Parameter error: amount"),
    Reason.OFF_STEP: ("131210", "Amount accuracy error"),
    Reason.BELOW_MINIMUM: ("131096", "Withdraw amount does not satisfy the lower limit or upper limit"),
    Reason.ABOVE_MAXIMUM: ("131096", "Withdraw amount does not satisfy the lower limit or upper limit"),
    Reason.NOT_ABOVE_FEE: ("131096", "Withdraw amount does not satisfy the lower limit or upper limit"),
    Reason.INSUFFICIENT: ("131001", "the available balance is not sufficient"),
    Reason.REPEATED_ORDER_ID: ("131082", "Do not repeat the request"),
    Reason.TRAVEL_RULE: ("131067", "Beneficiary information is required"),
    Reason.MAINTENANCE: ("10016", "Service is restarting. Please try again later."),
    Reason.NO_SUCH_ENDPOINT: ("404", "Not Found"),
    Reason.KEY_MAY_NOT: ("10005", "Permission denied, please check your API key permissions."),
}

DIALECT = BybitDialect
