"""OKX's wire: withdrawals from the funding account; amounts exclude the fee, a chain is named with its coin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import OlderThan
from qtg_dagster.lanes.cex.readings import decimal, field, ident, milliseconds, moment, rows, state_in, step_of, text
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
    RowState,
    Venue,
    Window,
    WithdrawalRow,
)

WITHDRAWAL_STATES: Mapping[str, RowState] = {
    "-3": RowState.PENDING,  # cancelling
    "-2": RowState.CANCELLED,
    "-1": RowState.FAILED,
    "2": RowState.DONE,
    # waiting, in review or under way, each in its own words
    **dict.fromkeys(("0", "1", "4", "5", "6", "7", "8", "9", "10", "12", "15", "16", "17", "19"), RowState.PENDING),
}
DEPOSIT_STATES: Mapping[str, RowState] = {
    "0": RowState.PENDING,
    "1": RowState.LOCKED,  # credited, cannot be withdrawn yet
    "2": RowState.DONE,
    "8": RowState.PENDING,
    "17": RowState.PENDING,
    **dict.fromkeys(("11", "12", "13", "14"), RowState.HELD),  # blocked, frozen or stopped until somebody acts
}
REFUSALS = frozenset(
    {"50011", *(str(code) for code in range(50102, 50115))}
    | {"58203", "58205", "58206", "58207", "58209", "58221", "58222", "58350"}
)
ACCESS_CODES: Mapping[str, Access] = {
    **dict.fromkeys(("50001", "50005"), Access.MAINTENANCE),
    **dict.fromkeys(("50101", "50103", "50111", "50119"), Access.WRONG_KEY),  # 50101: of another site of theirs
    **dict.fromkeys(("50102", "50107", "50112"), Access.CLOCK),
    **dict.fromkeys(("50104", "50105"), Access.WRONG_PASSPHRASE),
    **dict.fromkeys(("50106", "50113"), Access.WRONG_SIGNATURE),
    "50110": Access.IP_NOT_ALLOWED,
    "50114": Access.KEY_IP_OR_PERMISSION,
    "50120": Access.NO_PERMISSION,
}
NETWORK_ALIASES: Mapping[str, str] = {
    "ETH": "ERC20",
    "TRX": "TRC20",
    "ARBITRUM": "Arbitrum One",
    "ARBITRUMONE": "Arbitrum One",
    "SOL": "Solana",
}
#: Services whose maintenance stops no withdrawal: websockets, block trading, trading bots, copy trading.
_OTHER_SERVICES = frozenset({"0", "2", "3", "8"})
_PAGE = 100


def _read_submit(body: Any) -> SubmitBody:
    if not isinstance(body, dict):
        return SubmitBody()
    code = str(body.get("code", ""))
    data = body.get("data")
    first = data[0] if isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict) else {}
    return SubmitBody(
        error_code=None if code in ("0", "") else code,
        message=str(body.get("msg") or ""),
        withdrawal_id=first.get("wdId"),
        success=code == "0",
    )


class OkxVenue(Venue):
    """What is asked for arrives; the fee is taken beside it. Withdrawals are found by our id, without a window."""

    ccxt_id = "okx"
    payload_format = "okx.withdrawal.v1"
    wallet = "funding"
    fee_rule = FeeRule.ON_TOP
    identity = Identity.SEARCHABLE
    request_lifetime = timedelta(seconds=30)
    history_window = timedelta(days=90)
    ids_per_lookup = 1
    withdrawal_pages = deposit_pages = OlderThan(_PAGE, "ts")
    access_codes = ACCESS_CODES
    submit_cost = 5 / 3
    rate_window_seconds = 12.0
    status_seconds = 5.0  # it may be asked for once in so long
    submit_rules = SubmitRules(
        read=_read_submit,
        refusals=REFUSALS,
        # Late, throttled, or short of what the first copy of the same request took.
        confirm_first=frozenset({"50011", "50102", "58350"}),
        duplicate_texts=("duplicate", "already exist", "repeat"),
    )

    def network_code(self, name: str) -> str:
        return NETWORK_ALIASES.get(name.upper(), name)

    def submit(self, order: Order, signed_at: datetime) -> Call:  # noqa: ARG002 - ccxt stamps the header itself
        to = order.address if order.memo is None else f"{order.address}:{order.memo}"
        params = {
            "ccy": order.coin,
            "chain": f"{order.coin}-{order.network}",
            "amt": order.amount,
            "dest": "4",  # on the chain, not inside the venue
            "toAddr": to,
            "clientId": order.client_id,
        }
        return Call("privatePostAssetWithdrawal", params, moves_money=True)

    def withdrawal_by_client_id(self, client_id: str, window: Window) -> Call:  # noqa: ARG002 - needs none
        return Call("privateGetAssetWithdrawalHistory", {"clientId": client_id})

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], coin: str, window: Window) -> Call:  # noqa: ARG002
        (withdrawal_id,) = withdrawal_ids
        return Call("privateGetAssetWithdrawalHistory", {"wdId": withdrawal_id})

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privateGetAssetWithdrawalHistory", _page(coin, window, cursor))

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(_withdrawal(row) for row in _data(body, "withdrawal history"))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privateGetAssetDepositHistory", _page(coin, window, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(_deposit(row) for row in _data(body, "deposit history"))

    def system_status(self) -> Call:
        return Call("publicGetSystemStatus", {"state": "ongoing"})

    def read_system_problem(self, body: Any) -> str | None:
        for row in _data(body, "system status"):
            if row.get("state") == "ongoing" and str(row.get("serviceType")) not in _OTHER_SERVICES:
                return f"the venue reports {row.get('title') or 'maintenance'}"
        return None

    def permissions(self) -> Call:
        return Call("privateGetAccountConfig")

    def read_permission_problem(self, body: Any) -> str | None:
        (account,) = _one(body, "account configuration")
        if "withdraw" in str(field(account, "perm", "account configuration")).split(","):
            return None
        return "the API key may not withdraw; enable withdrawals for it at the venue"

    def server_time(self) -> Call:
        return Call("publicGetPublicTime")

    def read_server_time(self, body: Any) -> datetime:
        (row,) = _one(body, "server time")
        return moment(field(row, "ts", "server time"))

    def networks(self, coin: str) -> tuple[Call, ...]:
        return (Call("privateGetAssetCurrencies", {"ccy": coin}),)

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        (body,) = bodies
        return tuple(_network(row) for row in _data(body, "currencies") if row.get("ccy") == coin)

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return Call("privateGetAssetBalances")

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        """What is being withdrawn counts as frozen here."""
        return tuple(
            CoinBalance(
                coin=str(field(row, "ccy", "balance")),
                free=decimal(field(row, "availBal", "balance"), "availBal"),
                locked=decimal(row.get("frozenBal") or "0", "frozenBal"),
                withdrawing=decimal("0", "withdrawing"),
            )
            for row in _data(body, "balances")
        )

    def other_wallets(self) -> Mapping[str, Call]:
        return {"trading": Call("privateGetAccountBalance")}

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:  # noqa: ARG002 - there is one
        (account,) = _one(body, "trading account")
        return tuple(_traded(row) for row in rows(account.get("details"), "trading account"))

    def with_beneficiary(self, call: Call, beneficiary: Mapping[str, Any]) -> Call:
        """The receiver as one object; whether the account's entity asks for it cannot be asked."""
        return replace(call, objects={"rcvrInfo": dict(beneficiary)})

    def deposit_address(self, coin: str, network: str) -> Call:  # noqa: ARG002 - all networks are answered
        return Call("privateGetAssetDepositAddress", {"ccy": coin})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:  # noqa: ARG002
        return tuple(
            DepositAddress(
                network=_network_of(row) or "",
                address=str(field(row, "addr", "deposit address")),
                memo=text(row.get("tag")) or text(row.get("memo")) or text(row.get("pmtId")),
            )
            for row in _data(body, "deposit addresses")
        )


VENUE = OkxVenue()


def _data(body: Any, what: str) -> Sequence[Mapping[str, Any]]:
    code = str(field(body, "code", what))
    if code != "0":
        raise LookupFailed(f"CODE_{code}", f"{what}: {body.get('msg') or 'no reason given'}")
    return rows(body.get("data"), what)


def _one(body: Any, what: str) -> Sequence[Mapping[str, Any]]:
    found = _data(body, what)
    if len(found) != 1:
        raise LookupFailed("MALFORMED", f"{what}: {len(found)} rows where one is due")
    return found


def _page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    """`before` asks for newer rows and `after` for older ones; neither includes the time itself."""
    newer, older = int(milliseconds(window.start)) - 1, int(milliseconds(window.end)) + 1
    of_coin = {} if coin is None else {"ccy": coin}
    return {**of_coin, "limit": str(_PAGE), "before": str(newer), "after": cursor or str(older)}


def _traded(row: Mapping[str, Any]) -> CoinBalance:
    """Account modes that tell no `availBal` tell the cash and what of it is frozen."""
    frozen = decimal(row.get("frozenBal") or "0", "frozenBal")
    free = text(row.get("availBal"))
    cash = decimal(field(row, "cashBal", "trading account"), "cashBal") if free is None else frozen
    return CoinBalance(
        coin=str(field(row, "ccy", "trading account")),
        free=max(cash - frozen, Decimal(0)) if free is None else decimal(free, "availBal"),
        locked=frozen,
        withdrawing=Decimal(0),
    )


def _network_of(row: Mapping[str, Any]) -> str | None:
    """`USDT-Arbitrum One` without its coin."""
    chain = text(row.get("chain"))
    return None if chain is None else chain.removeprefix(f"{row.get('ccy')}-")


def _withdrawal(row: Mapping[str, Any]) -> WithdrawalRow:
    status = str(field(row, "state", "withdrawal"))
    state, listed = state_in(WITHDRAWAL_STATES, status)
    return WithdrawalRow(
        withdrawal_id=ident(row, "wdId", "withdrawal"),
        client_id=text(row.get("clientId")),
        coin=str(field(row, "ccy", "withdrawal")),
        network=_network_of(row),
        address=text(row.get("to")),
        memo=text(row.get("tag")) or text(row.get("memo")) or text(row.get("pmtId")),
        amount=decimal(field(row, "amt", "withdrawal"), "amt"),
        fee=decimal(row.get("fee") or "0", "fee"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("txId")),
        internal=False,  # asked for on the chain only
        applied_at=moment(row["ts"]) if row.get("ts") else None,
        raw=row,
    )


def _deposit(row: Mapping[str, Any]) -> DepositRow:
    status = str(field(row, "state", "deposit"))
    state, listed = state_in(DEPOSIT_STATES, status)
    return DepositRow(
        deposit_id=ident(row, "depId", "deposit"),
        coin=str(field(row, "ccy", "deposit")),
        network=_network_of(row),
        address=text(row.get("to")),
        memo=text(row.get("tag")) or text(row.get("memo")) or text(row.get("pmtId")),
        amount=decimal(field(row, "amt", "deposit"), "amt"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("txId")),
        inserted_at=moment(row["ts"]) if row.get("ts") else None,
        raw=row,
    )


def _network(row: Mapping[str, Any]) -> NetworkRules:
    tagged = row.get("needTag") is True
    maximum = row.get("maxWd")
    return NetworkRules(
        network=_network_of(row) or "",
        withdraw_enabled=row.get("canWd") is True,
        fee=decimal(row.get("fee") or field(row, "maxFee", "currencies"), "fee"),
        minimum=decimal(field(row, "minWd", "currencies"), "minWd"),
        maximum=decimal(maximum, "maxWd") if maximum else None,
        step=step_of(field(row, "wdTickSz", "currencies"), "wdTickSz"),
        memo_required=tagged,
        memo_allowed=tagged,
        memo_pattern="",
        address_pattern="",
    )
