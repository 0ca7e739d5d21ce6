"""OKX's wire: amounts exclude the fee, a chain is named with its coin, everything comes in code, msg and data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any
from uuid import uuid4

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Credentials, Dialect, Endpoint, Role
from qtg_dagster.sandbox.exchange.dialects.okx.accounts import Accounts
from qtg_dagster.sandbox.exchange.dialects.okx.rows import Histories
from qtg_dagster.sandbox.exchange.dialects.okx.signing import OkxParameters, authenticate, parameters_of
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder

_CLIENT_ID = re.compile(r"[A-Za-z0-9]{1,32}")
_ON_CHAIN = "4"


class OkxDialect(Dialect):
    """OKX promises nothing about a clientId that was used before."""

    order_id_name = "clientId"
    ethereum = "ERC20"

    @classmethod
    def new_credentials(cls) -> Credentials:
        return Credentials(str(uuid4()), token_hex(16).upper(), token_hex(8))

    def check(self) -> None:
        if self.venue.config.api_passphrase is None:
            raise ConfigurationError(f"venues.{self.venue.key}.api_passphrase: keys of this wire have one")

    def endpoints(self) -> Sequence[Endpoint]:
        accounts, histories = Accounts(self.venue), Histories(self.venue)
        api, public = "/api/v5", Access.PUBLIC
        return (
            Endpoint("GET", f"{api}/public/time", lambda _: [{"ts": str(self.venue.now_ms())}], Role.TIME, public),
            Endpoint("GET", f"{api}/system/status", self._system_status, Role.STATUS, public),
            Endpoint("GET", f"{api}/account/config", accounts.account_config, Role.PERMISSIONS),
            Endpoint("GET", f"{api}/asset/currencies", accounts.currencies, Role.NETWORKS),
            Endpoint("GET", f"{api}/account/balance", lambda _: [{"totalEq": "0", "details": []}]),  # nothing is traded
            Endpoint("GET", f"{api}/asset/balances", accounts.balances, Role.BALANCES),
            Endpoint("GET", f"{api}/asset/deposit-address", accounts.deposit_addresses, Role.DEPOSIT_ADDRESS),
            Endpoint("GET", f"{api}/asset/deposit-history", histories.deposits, Role.DEPOSITS),
            Endpoint("GET", f"{api}/asset/withdrawal-history", histories.withdrawals, Role.WITHDRAWALS),
            Endpoint("POST", f"{api}/asset/withdrawal", self._withdraw, Role.WITHDRAW, Access.WITHDRAW),
        )

    def read(self, request: VenueRequest) -> OkxParameters:
        return parameters_of(request)

    def authenticate(self, request: VenueRequest) -> OkxParameters:
        return authenticate(request, self.venue.config, self.venue.now_ms())

    def decline(self, declined: Declined) -> Refusal:
        code, message, status = _WORDS[declined.reason]
        return Refusal(code, message, status)

    def not_from_here(self) -> Refusal:
        return Refusal("50110", "Your IP is not included in your API key's IP whitelist.", 401)

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        return {"code": refusal.code, "msg": refusal.message, "data": []}

    def success_body(self, result: Any) -> dict[str, Any]:
        return {"code": "0", "msg": "", "data": result}

    def withdrawal_id(self) -> str:
        return str(uuid4().int % 10**15)

    def _system_status(self, _: OkxParameters) -> list[dict[str, str]]:
        """Empty when there is no maintenance."""
        if not self.venue.conditions.maintenance:
            return []
        now = self.venue.now_ms()
        times = {"begin": str(now - 60_000), "end": str(now + 3_600_000)}
        return [{"title": "Maintenance", "state": "ongoing", "serviceType": "1", "system": "unified", **times}]

    def _withdraw(self, parameters: OkxParameters) -> list[dict[str, str]]:
        coin, amount = parameters.required("ccy"), parameters.required("amt")
        if parameters.required("dest") != _ON_CHAIN:
            raise parameters.malformed("dest")
        address, _, tag = parameters.required("toAddr").partition(":")
        client_id = parameters.text("clientId")
        if client_id is not None and not _CLIENT_ID.fullmatch(client_id):
            raise parameters.malformed("clientId")
        order = WithdrawalOrder(
            coin=coin,
            address=address,
            amount=amount,
            network=_network(coin, parameters.text("chain")),
            tag=tag or None,
            order_id=client_id,
            includes_fee=False,
        )
        key = self.venue.withdraw(order, told=parameters.object("rcvrInfo") is not None)
        chain = parameters.text("chain") or ""
        return [{"ccy": coin, "chain": chain, "amt": amount, "wdId": key, "clientId": client_id or ""}]


def _network(coin: str, chain: str | None) -> str | None:
    """`USDT-ERC20` without its coin; None leaves the choice to the venue."""
    if chain is None:
        return None
    prefix, _, network = chain.partition("-")
    if prefix != coin or not network:
        raise Declined(Reason.UNKNOWN_NETWORK)
    return network


_WORDS: Mapping[Reason, tuple[str, str, int]] = {
    Reason.UNKNOWN_COIN: ("51000", "Parameter ccy error.", 400),
    Reason.UNKNOWN_NETWORK: ("51000", "Parameter chain error.", 400),
    Reason.NETWORK_CLOSED: ("58200", "Withdrawal is unavailable for this currency on this chain.", 200),
    Reason.BAD_ADDRESS: ("58222", "Illegal withdrawal address.", 200),
    Reason.TAG_NOT_TAKEN: ("58222", "Illegal withdrawal address: this chain takes no tag.", 200),
    Reason.ADDRESS_NOT_SAVED: ("58207", "Withdrawal address is not on the verified address list.", 200),
    Reason.MALFORMED_AMOUNT: ("51000", "Parameter amt error.", 400),
    Reason.OFF_STEP: ("51000", "Parameter amt error.", 400),
    Reason.BELOW_MINIMUM: ("58206", "Withdrawal amount is lower than the lower limit.", 200),
    Reason.ABOVE_MAXIMUM: ("58205", "Withdrawal amount exceeds the upper limit.", 200),
    Reason.NOT_ABOVE_FEE: ("51000", "Parameter amt error.", 400),
    Reason.INSUFFICIENT: ("58350", "Insufficient balance.", 200),
    Reason.REPEATED_ORDER_ID: ("51000", "Parameter clientId error: duplicate.", 400),  # no number is published for it
    Reason.TRAVEL_RULE: ("58237", "Recipient information is required by local rules.", 200),
    Reason.MAINTENANCE: ("50001", "Service temporarily unavailable. Try again later.", 503),
    Reason.NO_SUCH_ENDPOINT: ("404", "Not Found", 404),
    Reason.KEY_MAY_NOT: ("50120", "This API key does not have permission to use this function.", 401),
}

DIALECT = OkxDialect
