"""Binance's wire: endpoints of the spot wallet, answers as plain JSON, refusals with a negative code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Dialect, Endpoint, Role
from qtg_dagster.sandbox.exchange.dialects.binance.accounts import Accounts
from qtg_dagster.sandbox.exchange.dialects.binance.local_entity import LocalEntity, asked_order
from qtg_dagster.sandbox.exchange.dialects.binance.rows import Histories
from qtg_dagster.sandbox.exchange.dialects.binance.signing import BinanceParameters, authenticate, parameters_of
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest

_WALLET, _SPOT = "/sapi/v1", "/api/v3"


class BinanceDialect(Dialect):
    """Binance promises no deduplication of withdrawOrderId."""

    content_type = "application/json;charset=UTF-8"
    order_id_name = "withdrawOrderId"

    def endpoints(self) -> Sequence[Endpoint]:
        accounts, histories, public = Accounts(self.venue), Histories(self.venue), Access.PUBLIC
        return (
            Endpoint("GET", f"{_SPOT}/ping", lambda _: {}, access=public),
            Endpoint("GET", f"{_SPOT}/time", lambda _: {"serverTime": self.venue.now_ms()}, Role.TIME, public),
            Endpoint("GET", f"{_SPOT}/exchangeInfo", lambda _: accounts.exchange_info(), access=public),
            Endpoint("GET", f"{_WALLET}/system/status", self._system_status, Role.STATUS, public),
            Endpoint("GET", f"{_SPOT}/account", accounts.account),
            Endpoint("GET", f"{_WALLET}/account/status", lambda _: {"data": self.venue.conditions.account_status}),
            Endpoint("GET", f"{_WALLET}/account/apiRestrictions", accounts.restrictions, Role.PERMISSIONS),
            Endpoint("POST", "/sapi/v3/asset/getUserAsset", accounts.user_assets, Role.BALANCES),
            Endpoint("POST", f"{_WALLET}/asset/get-funding-asset", lambda _: []),  # an empty wallet
            Endpoint("GET", f"{_WALLET}/capital/config/getall", accounts.all_coins, Role.NETWORKS),
            Endpoint("GET", f"{_WALLET}/capital/deposit/address", accounts.deposit_address, Role.DEPOSIT_ADDRESS),
            Endpoint("GET", f"{_WALLET}/capital/deposit/hisrec", histories.deposits, Role.DEPOSITS),
            Endpoint("GET", f"{_WALLET}/capital/withdraw/history", histories.withdrawals, Role.WITHDRAWALS),
            Endpoint("POST", f"{_WALLET}/capital/withdraw/apply", self._apply, Role.WITHDRAW, Access.WITHDRAW),
            *LocalEntity(self.venue).endpoints(),
        )

    def read(self, request: VenueRequest) -> BinanceParameters:
        return parameters_of(request)

    def authenticate(self, request: VenueRequest) -> BinanceParameters:
        return authenticate(
            request,
            api_key=self.venue.config.api_key,
            api_secret=self.venue.config.api_secret.get_secret_value(),
            now_ms=self.venue.now_ms(),
        )

    def decline(self, declined: Declined) -> Refusal:
        step, minimum = declined.facts.get("step", ""), declined.facts.get("minimum", "")
        match declined.reason:
            case Reason.NO_SUCH_ENDPOINT:
                return Refusal(-1000, "No such endpoint here.", 404)
            case Reason.MAINTENANCE:
                return Refusal(-1016, "This service is no longer available.", 503)
            case Reason.KEY_MAY_NOT:
                return Refusal(-2015, "Invalid API-key, IP, or permissions for action.", 401)
            case Reason.OFF_STEP:
                return Refusal(-4021, f"Asset withdrawal must be an integer multiple of {step}.")
            case Reason.BELOW_MINIMUM:
                return Refusal(-4022, f"Not less than the minimum pick-up quantity {minimum}.")
            case _:
                return Refusal(*_WORDS[declined.reason])

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        return {"code": refusal.code, "msg": refusal.message}

    def _system_status(self, _: BinanceParameters) -> dict[str, Any]:
        if self.venue.conditions.maintenance:
            return {"status": 1, "msg": "system_maintenance"}
        return {"status": 0, "msg": "normal"}

    def _apply(self, parameters: BinanceParameters) -> dict[str, Any]:
        order = asked_order(parameters)
        if parameters.text("walletType") == "1":  # the funding wallet, which is empty here
            self.venue.desk.check(order, disabled=self.venue.conditions.withdraw_disabled)
            raise Declined(Reason.INSUFFICIENT)
        return {"id": self.venue.withdraw(order)}


_WORDS: Mapping[Reason, tuple[int, str]] = {
    Reason.UNKNOWN_COIN: (-4018, "We don't have this asset."),
    Reason.UNKNOWN_NETWORK: (-4019, "The current currency is not open for withdrawal"),
    Reason.NETWORK_CLOSED: (-4019, "The current currency is not open for withdrawal"),
    Reason.BAD_ADDRESS: (-4007, "Address validation is not passed."),
    Reason.TAG_NOT_TAKEN: (-4106, "This network does not support an address tag."),
    Reason.ADDRESS_NOT_SAVED: (-4035, "This address is not on the whitelist. Please join and try again."),
    Reason.MALFORMED_AMOUNT: (
        -1100,
        "Illegal characters found in parameter 'amount'; legal range is a plain decimal.",
    ),
    Reason.ABOVE_MAXIMUM: (-4023, "Within 24 hours, the withdrawal exceeds the maximum amount."),
    Reason.NOT_ABOVE_FEE: (-4028, "The amount of withdrawal must be greater than the Commission."),
    Reason.INSUFFICIENT: (-4026, "You have insufficient balance."),
    Reason.REPEATED_ORDER_ID: (-4067, "This withdrawOrderId was used before."),  # Binance publishes no number for it
    Reason.TRAVEL_RULE: (-4104, "This withdrawal needs the travel rule questionnaire."),
}

DIALECT = BinanceDialect
