"""Bitget's wire for its classic accounts: withdrawals from the spot wallet, every answer in code, msg and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.lanes.cex.matching import EXACT
from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import BelowId
from qtg_dagster.lanes.cex.readings import decimal, field, ident, moment, rows, start_end, state_in, step_of, text
from qtg_dagster.lanes.cex.venue import (
    Call,
    CoinBalance,
    DepositAddress,
    DepositRow,
    FeeRule,
    Identity,
    NetworkRules,
    Order,
    Venue,
    Window,
    WithdrawalRow,
)
from qtg_dagster.lanes.cex.venues.bitget import wallets
from qtg_dagster.lanes.cex.venues.bitget.envelope import coin_of, data_of, rows_of
from qtg_dagster.lanes.cex.venues.bitget.words import (
    ACCESS_CODES,
    BENEFICIARY,
    CONFIRM_FIRST,
    DEPOSIT_STATES,
    DUPLICATES,
    NETWORK_ALIASES,
    NO_WALLET,
    REFUSALS,
    WITHDRAWAL_STATES,
    chain_of,
)

_ON_CHAIN = "on_chain"
_PAGE = 100
_RECORDS = "privateSpotGetV2SpotWalletWithdrawalRecords"


def _read_submit(body: Any) -> SubmitBody:
    if not isinstance(body, dict):
        return SubmitBody()
    code = str(body.get("code", ""))
    data = body.get("data")
    return SubmitBody(
        error_code=None if code in ("00000", "") else code,
        message=str(body.get("msg") or ""),
        withdrawal_id=data.get("orderId") if isinstance(data, dict) else None,
        success=code == "00000",
    )


class BitgetVenue(Venue):
    """Withdrawals are found by our id. No document says whether the fee is part of what is asked for."""

    ccxt_id = "bitget"
    payload_format = "bitget.withdrawal.v1"
    wallet = "spot"
    fee_rule = FeeRule.EITHER
    identity = Identity.SEARCHABLE
    request_lifetime = timedelta(seconds=30)
    client_id_window = history_window = timedelta(days=90, seconds=-1)
    ids_per_lookup = 1
    withdrawal_pages = deposit_pages = BelowId(_PAGE, "orderId")
    access_codes = ACCESS_CODES
    no_wallet_codes = NO_WALLET
    submit_cost = 4.0  # five a second of ccxt's twenty
    submit_rules = SubmitRules(
        read=_read_submit,
        refusals=REFUSALS,
        confirm_first=CONFIRM_FIRST,
        duplicate_codes=DUPLICATES,
        duplicate_texts=("duplicate", "already exist", "repeat"),
    )

    def network_code(self, name: str) -> str:
        return NETWORK_ALIASES.get(name.upper(), name)

    def submit(self, order: Order, signed_at: datetime) -> Call:  # noqa: ARG002 - ccxt stamps the header itself
        params = {
            "coin": order.coin,
            "transferType": _ON_CHAIN,
            "chain": chain_of(order.coin, order.network),
            "address": order.address,
            "size": order.amount,
            "clientOid": order.client_id,
        }
        if order.memo is not None:
            params["tag"] = order.memo
        return Call("privateSpotPostV2SpotWalletWithdrawal", params, moves_money=True)

    def with_beneficiary(self, call: Call, beneficiary: Mapping[str, Any]) -> Call:
        """What is asked of withdrawals to exchanges in Korea. It stands beside address and amount, and is neither."""
        unknown = sorted(set(beneficiary) - set(BENEFICIARY))
        if unknown:
            problem = f"Bitget does not ask for {', '.join(unknown)}"
            raise InvalidInput("travel_rule", problem, f"Use {', '.join(BENEFICIARY)}.")
        return replace(call, params={**call.params, **beneficiary})

    def withdrawal_by_client_id(self, client_id: str, window: Window) -> Call:
        return Call(_RECORDS, {"clientOid": client_id, **start_end(window)})

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], coin: str, window: Window) -> Call:  # noqa: ARG002
        (withdrawal_id,) = withdrawal_ids
        return Call(_RECORDS, {"orderId": withdrawal_id, **start_end(window)})

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call(_RECORDS, _page(coin, window, cursor))

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(_withdrawal(row) for row in rows_of(body, "withdrawal records"))

    def arriving(self, row: WithdrawalRow) -> Decimal:
        """Rows show what was asked for; the fee is read as a part of it, as ccxt does."""
        return max(EXACT.subtract(row.amount, row.fee), Decimal(0))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privateSpotGetV2SpotWalletDepositRecords", _page(coin, window, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(_deposit(row) for row in rows_of(body, "deposit records"))

    def permissions(self) -> Call:
        return Call("privateSpotGetV2SpotAccountInfo")

    def read_permission_problem(self, body: Any) -> str | None:
        rights = field(data_of(body, "account information"), "authorities", "account information")
        if isinstance(rights, list) and "wwow" in rights:
            return None
        return "the API key may not withdraw; enable withdrawals for it at the venue"

    def server_time(self) -> Call:
        return Call("publicCommonGetV2PublicTime")

    def read_server_time(self, body: Any) -> datetime:
        return moment(field(data_of(body, "server time"), "serverTime", "server time"))

    def read_answer_time(self, body: Any) -> datetime | None:
        """Some documented answers come without it."""
        told = body.get("requestTime") if isinstance(body, dict) else None
        return None if told in (None, "") else moment(told)

    def networks(self, coin: str) -> tuple[Call, ...]:
        return (Call("publicSpotGetV2SpotPublicCoins", {"coin": coin}),)

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        (body,) = bodies
        for entry in rows_of(body, "coins"):
            if coin_of(entry, "coin") == coin:
                return tuple(_network(row) for row in rows(entry.get("chains"), "chains"))
        return ()

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return Call("privateSpotGetV2SpotAccountAssets", {"assetType": "hold_only"})

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        """What is being withdrawn counts as frozen here."""
        return tuple(wallets.balance(row, "frozen", "locked") for row in rows_of(body, "assets"))

    def other_wallets(self) -> Mapping[str, Call]:
        return wallets.CALLS

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:
        return wallets.read(wallet, body)

    def deposit_address(self, coin: str, network: str) -> Call:
        return Call("privateSpotGetV2SpotWalletDepositAddress", {"coin": coin, "chain": chain_of(coin, network)})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:
        found = data_of(body, "deposit address")
        chain = self.network_code(text(found.get("chain")) or network)
        return (DepositAddress(chain, str(field(found, "address", "deposit address")), text(found.get("tag"))),)


VENUE = BitgetVenue()


def _page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    of_coin = {} if coin is None else {"coin": coin}
    below = {} if cursor is None else {"idLessThan": cursor}
    return {**of_coin, "limit": str(_PAGE), **start_end(window), **below}


def _fee(row: Mapping[str, Any]) -> Decimal:
    """Fees are told as negative amounts."""
    return decimal(str(row.get("fee") or "0").strip().removeprefix("-"), "fee")


def _withdrawal(row: Mapping[str, Any]) -> WithdrawalRow:
    status = str(field(row, "status", "withdrawal"))
    state, listed = state_in(WITHDRAWAL_STATES, status.lower())
    return WithdrawalRow(
        withdrawal_id=ident(row, "orderId", "withdrawal"),
        client_id=text(row.get("clientOid")),
        coin=coin_of(row, "coin"),
        network=text(row.get("chain")),
        address=text(row.get("toAddress")),
        memo=text(row.get("tag")),
        amount=decimal(field(row, "size", "withdrawal"), "size"),
        fee=_fee(row),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("tradeId")),
        internal=str(row.get("dest") or _ON_CHAIN) != _ON_CHAIN,
        applied_at=moment(row["cTime"]) if row.get("cTime") else None,
        raw=row,
    )


def _deposit(row: Mapping[str, Any]) -> DepositRow:
    status = str(field(row, "status", "deposit"))
    state, listed = state_in(DEPOSIT_STATES, status.lower())
    return DepositRow(
        deposit_id=ident(row, "orderId", "deposit"),
        coin=coin_of(row, "coin"),
        network=text(row.get("chain")),
        address=text(row.get("toAddress")),
        memo=text(row.get("tag")),
        amount=decimal(field(row, "size", "deposit"), "size"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("tradeId")),
        inserted_at=moment(row["cTime"]) if row.get("cTime") else None,
        raw=row,
    )


def _network(row: Mapping[str, Any]) -> NetworkRules:
    tagged = _is_true(row.get("needTag"))
    scale = step_of(field(row, "withdrawMinScale", "chains"), "withdrawMinScale")
    return NetworkRules(
        network=VENUE.network_code(str(field(row, "chain", "chains"))),
        withdraw_enabled=_is_true(row.get("withdrawable")),
        fee=decimal(field(row, "withdrawFee", "chains"), "withdrawFee"),
        minimum=decimal(field(row, "minWithdrawAmount", "chains"), "minWithdrawAmount"),
        maximum=None,
        step=max(scale, decimal(row.get("withdrawStep") or "0", "withdrawStep")),
        memo_required=tagged,
        memo_allowed=tagged,
        memo_pattern="",
        address_pattern="",
        fee_rate=decimal(row.get("extraWithdrawFee") or "0", "extraWithdrawFee"),  # burnt by the coin itself
    )


def _is_true(value: Any) -> bool:
    return value is True or str(value).lower() == "true"
