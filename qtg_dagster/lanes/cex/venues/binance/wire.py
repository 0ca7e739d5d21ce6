"""Binance's wire: spot wallet withdrawals and deposits through `sapi`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules, usable_id
from qtg_dagster.lanes.cex.paging import ByOffset, Paging
from qtg_dagster.lanes.cex.readings import decimal, field, milliseconds, moment, rows, start_end, text
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import (
    Access,
    Call,
    CoinBalance,
    DepositAddress,
    DepositRow,
    FeeRule,
    Identity,
    NetworkRules,
    Order,
    TravelRule,
    Unlisted,
    Venue,
    Window,
    WithdrawalRow,
)
from qtg_dagster.lanes.cex.venues.binance.rows import deposit_row, network_rules, withdrawal_row

REFUSALS = frozenset(
    {"-1021", "-1022", "-2014", "-2015", "-4001", "-4003", "-4026", "-4104", "-4106"}
    | {str(-code) for code in range(1100, 1106)}
)
ACCESS_CODES: Mapping[str, Access] = {
    "-1002": Access.NO_PERMISSION,
    "-1016": Access.MAINTENANCE,
    "-1021": Access.CLOCK,
    "-1022": Access.WRONG_SIGNATURE,
    "-2008": Access.WRONG_KEY,
    "-2014": Access.WRONG_KEY,
    "-2015": Access.KEY_IP_OR_PERMISSION,
}
NETWORK_ALIASES: Mapping[str, str] = {
    "ERC20": "ETH",
    "TRC20": "TRX",
    "BEP20": "BSC",
    "ARBITRUMONE": "ARBITRUM",
    "SPL": "SOL",
}
_RECEIVE_WINDOW = timedelta(seconds=5)
PAGE = 1000
#: Before the number of a travel rule record, which is a withdrawal's id there.
TOLD = "tr"


def _read_submit(body: Any) -> SubmitBody:
    if not isinstance(body, dict):
        return SubmitBody()
    code = body.get("code")
    error = None if code in (None, "", 0, "0", 200, "200") else str(code)
    if error is None and "trId" in body:
        return told_submit(body)
    return SubmitBody(
        error_code=error,
        message=str(body.get("msg") or ""),
        withdrawal_id=body.get("id"),
        success=error is None and body.get("success", True) is True and body.get("status") != "error",
    )


def told_submit(body: Mapping[str, Any]) -> SubmitBody:
    """The answer of the endpoint under the travel rule; what it does not say it took may still be on record.

    `accpted` is how the venue spells it.
    """
    taken = body.get("accpted", body.get("accepted"))
    found = usable_id(body.get("trId"))
    message = str(body.get("info") or "")
    return SubmitBody(None, message, None if found is None else f"{TOLD}{found}", success=taken is True)


class BinanceVenue(Venue):
    """Requests to and readings of Binance. Requested amounts are gross: the record's amount + fee."""

    ccxt_id = "binance"
    payload_format = "binance.withdraw.v1"
    wallet = "spot"
    fee_rule = FeeRule.FROM_AMOUNT
    identity = Identity.SEARCHABLE
    request_lifetime = _RECEIVE_WINDOW
    client_id_window = timedelta(days=7, seconds=-1)
    history_window = timedelta(days=90, seconds=-1)
    ids_per_lookup = 45
    withdrawal_pages: Paging = ByOffset(PAGE)
    deposit_pages = ByOffset(PAGE)
    confirmations = ("confirmNo", "confirmTimes")
    access_codes = ACCESS_CODES
    submit_cost = 6.0  # weight 900 of 180,000 a minute
    submit_rules = SubmitRules(
        read=_read_submit,
        refusals=REFUSALS,
        # Late, short of what the first copy of the request took, or "invalid operation", which says of what not.
        confirm_first=frozenset({"-1021", "-4001", "-4026"}),
        # No code for a used client id is documented: whatever speaks of a repeat is looked up.
        duplicate_texts=("duplicate", "already exist", "repeat"),
    )

    def network_code(self, name: str) -> str:
        return NETWORK_ALIASES.get(name.upper(), name)

    def submit(self, order: Order, signed_at: datetime) -> Call:
        params = {
            "coin": order.coin,
            "network": order.network,
            "address": order.address,
            "amount": order.amount,
            "withdrawOrderId": order.client_id,
            "walletType": "0",  # else the venue takes whatever wallet its web page has selected
            "timestamp": milliseconds(signed_at),
            "recvWindow": str(int(_RECEIVE_WINDOW.total_seconds() * 1000)),
        }
        if order.memo is not None:
            params["addressTag"] = order.memo
        return Call("sapiPostCapitalWithdrawApply", params, moves_money=True, raw_encoded=True)

    def withdrawal_by_client_id(self, client_id: str, window: Window) -> Call | tuple[Call, ...]:
        return Call("sapiGetCapitalWithdrawHistory", {"withdrawOrderId": client_id, **start_end(window)})

    def withdrawals_by_ids(
        self,
        withdrawal_ids: Sequence[str],
        coin: str,  # noqa: ARG002 - ids are the venue's own
        window: Window,
    ) -> Call | tuple[Call, ...]:
        return Call("sapiGetCapitalWithdrawHistory", {"idList": ",".join(withdrawal_ids), **start_end(window)})

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("sapiGetCapitalWithdrawHistory", page(coin, window, cursor))

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(withdrawal_row(row) for row in rows(body, "withdrawal history"))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("sapiGetCapitalDepositHisrec", page(coin, window, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(deposit_row(row) for row in rows(body, "deposit history"))

    def system_status(self) -> Call:
        return Call("sapiGetSystemStatus")

    def read_system_problem(self, body: Any) -> str | None:
        status = str(field(body, "status", "system status"))
        return None if status == "0" else f"the venue reports {body.get('msg') or 'maintenance'} (status {status})"

    def permissions(self) -> Call:
        return Call("sapiGetAccountApiRestrictions")

    def read_permission_problem(self, body: Any) -> str | None:
        if field(body, "enableWithdrawals", "API restrictions") is True:
            return None
        return "the API key may not withdraw; enable withdrawals for it at the venue"

    def server_time(self) -> Call:
        return Call("publicGetTime")

    def read_server_time(self, body: Any) -> datetime:
        return moment(field(body, "serverTime", "server time"))

    def networks(self, coin: str) -> tuple[Call, ...]:  # noqa: ARG002 - it tells of all coins at once
        return (Call("sapiGetCapitalConfigGetall"),)

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        (body,) = bodies
        for entry in rows(body, "coin information"):
            if entry.get("coin") == coin:
                allowed = entry.get("withdrawAllEnable", True) is True
                return tuple(network_rules(row, allowed) for row in rows(entry.get("networkList"), "network list"))
        return ()

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return Call("sapiV3PostAssetGetUserAsset")

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        return tuple(
            CoinBalance(
                coin=str(field(row, "asset", "balance")),
                free=decimal(field(row, "free", "balance"), "free"),
                locked=decimal(row.get("locked", "0"), "locked") + decimal(row.get("freeze", "0"), "freeze"),
                withdrawing=decimal(row.get("withdrawing", "0"), "withdrawing"),
            )
            for row in rows(body, "balances")
        )

    def other_wallets(self) -> Mapping[str, Call]:
        return {"funding": Call("sapiPostAssetGetFundingAsset")}

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:  # noqa: ARG002 - rows are alike
        return self.read_balances(body)

    def travel_rule(self, order: Order) -> Call:  # noqa: ARG002 - it is the account that is asked about
        asked = Unlisted("sapi", "GET", "localentity/questionnaire-requirements", cost=0.1)
        return Call("sapiGetLocalentityQuestionnaireRequirements", unlisted=asked, plain=True)

    def read_travel_rule(self, body: Any, order: Order) -> TravelRule:  # noqa: ARG002
        """The country whose questions have to be answered, or NIL."""
        names = ("questionnaireCountryCode", "entityCountryCode")
        told = body if isinstance(body, str) else [body.get(name) for name in names] if isinstance(body, dict) else None
        if told is None:
            raise LookupFailed("MALFORMED", "questionnaire requirements: neither an object nor a word")
        words = {str(word).strip().upper() for word in ([told] if isinstance(told, str) else told) if word is not None}
        return TravelRule.BENEFICIARY if words - {"NIL", ""} else TravelRule.NOTHING

    def with_beneficiary(self, call: Call, beneficiary: Mapping[str, Any]) -> Call:
        """Local entities have an endpoint of their own, which takes the answers beside all else."""
        asked = Unlisted("sapi", "POST", "localentity/withdraw/apply", cost=4.0002)
        params = {**call.params, "questionnaire": canonical_json(dict(beneficiary))}
        return replace(
            call, method="sapiPostLocalentityWithdrawApply", params=params, unlisted=asked, raw_encoded=False
        )

    def under_travel_rule(self) -> Venue:
        from qtg_dagster.lanes.cex.venues.binance.local_entity import LocalEntityVenue

        return LocalEntityVenue()

    def deposit_address(self, coin: str, network: str) -> Call:
        return Call("sapiGetCapitalDepositAddress", {"coin": coin, "network": network})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:
        address = str(field(body, "address", "deposit address"))
        return (DepositAddress(network, address, text(body.get("tag"))),)


def page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    of_coin = {} if coin is None else {"coin": coin}
    return {**of_coin, "offset": cursor or "0", "limit": str(PAGE), **start_end(window)}
