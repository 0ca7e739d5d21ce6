"""Bybit's wire (v5): the funding account pays, the fee comes on top, and our id is taken and never shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import ByToken
from qtg_dagster.lanes.cex.readings import field, milliseconds, moment, rows, start_end, text
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
    Repeats,
    SavedAddress,
    Venue,
    Window,
    WithdrawalRow,
)
from qtg_dagster.lanes.cex.venues.bybit.beneficiary import telling
from qtg_dagster.lanes.cex.venues.bybit.records import (
    ANY_COIN,
    InBothRecords,
    deposit,
    endpoint_of,
    funding_balance,
    internal_deposit,
    network_rules,
    next_cursor,
    result,
    saved_address,
    trading_balance,
    withdrawal,
)

REFUSALS = frozenset(
    {"10002", "10003", "10004", "10005", "10006", "10010"}
    | {"131004", "131081", "131083", "131086", "131088", "131089", "131090", "131093"}
    | {"131096", "131097", "131098", "131212"}
    | {str(code) for code in range(131065, 131075)}
)
_RECEIVE_WINDOW = timedelta(seconds=5)
_PAGE = 50
#: Parts of the venue whose maintenance stops withdrawals: trading, and trading over HTTP. Streams do not.
_SERVICES = frozenset({"1", "2"})


def _read_submit(body: Any) -> SubmitBody:
    if not isinstance(body, dict) or "retCode" not in body:
        return SubmitBody()
    code, found = str(body["retCode"]), body.get("result")
    return SubmitBody(
        error_code=None if code == "0" else code,
        message="" if code == "0" else str(body.get("retMsg") or ""),
        withdrawal_id=found.get("id") if isinstance(found, dict) else None,
        success=code == "0",
    )


class BybitVenue(Venue):
    """What is asked for arrives; the fee is taken beside it. Our id makes a repeat harmless, and no row shows it."""

    ccxt_id = "bybit"
    payload_format = "bybit.withdraw.v1"
    wallet = "FUND"
    fee_rule = FeeRule.ON_TOP
    identity = Identity.SENT_ONLY
    repeats = Repeats.IDEMPOTENT
    request_lifetime = _RECEIVE_WINDOW
    history_window = timedelta(days=30, seconds=-1)
    ids_per_lookup = 1
    withdrawal_pages = ByToken(next_cursor)
    deposit_pages = InBothRecords()
    submit_cost = 50.0
    rate_window_seconds = 5.0
    seconds_between_submits = 10.0
    saved_addresses_only = True
    submit_rules = SubmitRules(
        read=_read_submit,
        refusals=REFUSALS,
        # A copy of a request that was taken comes too late, too soon after it, or finds limits and balance used up.
        confirm_first=frozenset({"10002", "10006", "131086", "131088", "131096", "131212"}),
        duplicate_codes=frozenset({"131082", "10014"}),
        duplicate_texts=("duplicate", "do not repeat"),
    )
    access_codes = MappingProxyType(
        {
            "10002": Access.CLOCK,
            "10003": Access.WRONG_KEY,
            "33004": Access.WRONG_KEY,  # expired
            "10004": Access.WRONG_SIGNATURE,
            "10005": Access.NO_PERMISSION,
            "10009": Access.IP_NOT_ALLOWED,
            "10010": Access.IP_NOT_ALLOWED,
            "10016": Access.MAINTENANCE,
        }
    )

    def network_code(self, name: str) -> str:
        return name.upper()

    def submit(self, order: Order, signed_at: datetime) -> Call:
        """`saved_as` is the address as the venue's book spells it: the book tells upper from lower case."""
        params = {
            "coin": order.coin,
            "chain": order.network,
            "address": order.saved_as or order.address,
            "amount": order.amount,
            "accountType": "FUND",
            "requestId": order.client_id,
        }
        if order.memo is not None:
            params["tag"] = order.memo
        whole = {
            "timestamp": int(milliseconds(signed_at)),
            "forceChain": 1,  # else an address of another customer is paid without a transaction
            "feeType": 0,
        }
        return Call("privatePostV5AssetWithdrawCreate", params, moves_money=True, objects=whole)

    def with_beneficiary(self, call: Call, beneficiary: Mapping[str, Any]) -> Call:
        """`questionnaire`, as the venue's pages word it for each zone, or the older fields."""
        return telling(call, beneficiary)

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], coin: str, window: Window) -> Call:
        asked = {"withdrawID": withdrawal_ids[0], "coin": coin, "withdrawType": "2", **start_end(window)}
        return Call("privateGetV5AssetWithdrawQueryRecord", asked)

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        """`withdrawType` 2: the venue leaves out what did not go over a chain unless it is asked for."""
        asked = {"withdrawType": "2", **_page(coin, window, cursor)}
        return Call("privateGetV5AssetWithdrawQueryRecord", asked)

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(withdrawal(row) for row in rows(field(result(body), "rows", "withdrawals"), "withdrawals"))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        """First the record of deposits over a chain, then the one of those between customers."""
        endpoint, token = endpoint_of(cursor)
        return Call(endpoint, _page(coin, window, token))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        found = rows(field(result(body), "rows", "deposits"), "deposits")
        return tuple(internal_deposit(row) if "createdTime" in row else deposit(row) for row in found)

    def system_status(self) -> Call:
        return Call("publicGetV5SystemStatus")

    def read_system_problem(self, body: Any) -> str | None:
        for row in rows(field(result(body), "list", "system status"), "system status"):
            services = row.get("serviceTypes") or []
            if row.get("state") == "ongoing" and (not services or _SERVICES & set(map(str, services))):
                return f"the venue reports {text(row.get('title')) or 'maintenance'}"
        return None

    def permissions(self) -> Call:
        return Call("privateGetV5UserQueryApi")

    def read_permission_problem(self, body: Any) -> str | None:
        key = result(body)
        rights = field(key, "permissions", "API key")
        wallet = rights.get("Wallet") if isinstance(rights, dict) else None
        if str(key.get("readOnly", 0)) != "0" or not isinstance(wallet, list) or "Withdraw" not in wallet:
            return "the API key may not withdraw; let it withdraw at the venue, and let it do more than read"
        if key.get("isMaster") is False:
            return "the API key is a subaccount's, from which nothing can be withdrawn; use the master account's"
        return None

    def server_time(self) -> Call:
        return Call("publicGetV5MarketTime")

    def read_server_time(self, body: Any) -> datetime:
        nanoseconds = str(field(result(body), "timeNano", "server time"))
        if not (nanoseconds.isascii() and nanoseconds.isdigit()) or len(nanoseconds) < 7:
            raise LookupFailed("MALFORMED", f"server time: {nanoseconds!r} is no time in nanoseconds")
        return moment(nanoseconds[:-6])

    def read_answer_time(self, body: Any) -> datetime | None:
        return moment(body["time"]) if isinstance(body, dict) and body.get("time") else None

    def networks(self, coin: str) -> tuple[Call, ...]:
        return (Call("privateGetV5AssetCoinQueryInfo", {"coin": coin}),)

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        (body,) = bodies
        for entry in rows(field(result(body), "rows", "coins"), "coins"):
            if entry.get("coin") == coin:
                return tuple(network_rules(entry, row) for row in rows(entry.get("chains"), "chains"))
        return ()

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return Call("privateGetV5AssetTransferQueryAccountCoinsBalance", {"accountType": "FUND"})

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        return tuple(funding_balance(row) for row in rows(field(result(body), "balance", "balances"), "balances"))

    def other_wallets(self) -> Mapping[str, Call]:
        return {"UNIFIED": Call("privateGetV5AccountWalletBalance", {"accountType": "UNIFIED"})}

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:  # noqa: ARG002 - there is one
        accounts = rows(field(result(body), "list", "balances"), "balances")
        return tuple(trading_balance(row) for account in accounts for row in rows(account.get("coin"), "balances"))

    def address_book(self, coin: str) -> Call:
        asked = {"coin": coin, "addressType": "0", "limit": str(_PAGE)}
        return Call("privateGetV5AssetWithdrawQueryAddress", asked)

    def more_of_address_book(self, asked: Call, body: Any) -> Call | None:
        """Page by page the addresses of the coin, then those that are good for every coin of their chain."""
        token = next_cursor(body)
        if token is not None:
            return replace(asked, params={**asked.params, "cursor": token})
        return None if asked.params["coin"] == ANY_COIN else self.address_book(ANY_COIN)

    def read_address_book(self, body: Any) -> tuple[SavedAddress, ...]:
        return tuple(saved_address(row) for row in rows(field(result(body), "rows", "address book"), "address book"))

    def deposit_address(self, coin: str, network: str) -> Call:
        return Call("privateGetV5AssetDepositQueryAddress", {"coin": coin, "chainType": network})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:  # noqa: ARG002
        return tuple(
            DepositAddress(
                network=str(field(row, "chain", "deposit address")),
                address=str(field(row, "addressDeposit", "deposit address")),
                memo=text(row.get("tagDeposit")),
            )
            for row in rows(field(result(body), "chains", "deposit addresses"), "deposit addresses")
        )


VENUE = BybitVenue()


def _page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    asked = {} if coin is None else {"coin": coin}
    if cursor is not None:
        asked["cursor"] = cursor
    return {**asked, "limit": str(_PAGE), **start_end(window)}
