"""OKX's wire: withdrawals from the funding account; amounts exclude the fee, a chain is named with its coin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import OlderThan
from qtg_dagster.lanes.cex.readings import decimal, field, milliseconds, moment, rows, text
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
    Venue,
    Window,
    WithdrawalRow,
)
from qtg_dagster.lanes.cex.venues.okx.answers import (
    data_of,
    deposit_row,
    network_of,
    network_rules,
    one_of,
    traded_balance,
    withdrawal_row,
)

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
        # Late, throttled, or short of what the first copy of the same request took: of the balance, or of a limit.
        confirm_first=frozenset({"50011", "50102", "58205", "58350"}),
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
        return tuple(withdrawal_row(row) for row in data_of(body, "withdrawal history"))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privateGetAssetDepositHistory", _page(coin, window, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(deposit_row(row) for row in data_of(body, "deposit history"))

    def system_status(self) -> Call:
        return Call("publicGetSystemStatus", {"state": "ongoing"})

    def read_system_problem(self, body: Any) -> str | None:
        for row in data_of(body, "system status"):
            if row.get("state") == "ongoing" and str(row.get("serviceType")) not in _OTHER_SERVICES:
                return f"the venue reports {row.get('title') or 'maintenance'}"
        return None

    def permissions(self) -> Call:
        return Call("privateGetAccountConfig")

    def read_permission_problem(self, body: Any) -> str | None:
        (account,) = one_of(body, "account configuration")
        if "withdraw" in str(field(account, "perm", "account configuration")).split(","):
            return None
        return "the API key may not withdraw; enable withdrawals for it at the venue"

    def server_time(self) -> Call:
        return Call("publicGetPublicTime")

    def read_server_time(self, body: Any) -> datetime:
        (row,) = one_of(body, "server time")
        return moment(field(row, "ts", "server time"))

    def networks(self, coin: str) -> tuple[Call, ...]:
        return (Call("privateGetAssetCurrencies", {"ccy": coin}),)

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        (body,) = bodies
        return tuple(network_rules(row) for row in data_of(body, "currencies") if row.get("ccy") == coin)

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
            for row in data_of(body, "balances")
        )

    def other_wallets(self) -> Mapping[str, Call]:
        return {"trading": Call("privateGetAccountBalance")}

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:  # noqa: ARG002 - there is one
        (account,) = one_of(body, "trading account")
        return tuple(traded_balance(row) for row in rows(account.get("details"), "trading account"))

    def with_beneficiary(self, call: Call, beneficiary: Mapping[str, Any]) -> Call:
        """The receiver as one object; whether the account's entity asks for it cannot be asked."""
        return replace(call, objects={"rcvrInfo": dict(beneficiary)})

    def deposit_address(self, coin: str, network: str) -> Call:  # noqa: ARG002 - all networks are answered
        return Call("privateGetAssetDepositAddress", {"ccy": coin})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:  # noqa: ARG002
        return tuple(
            DepositAddress(
                network=network_of(row) or "",
                address=str(field(row, "addr", "deposit address")),
                memo=text(row.get("tag")) or text(row.get("memo")) or text(row.get("pmtId")),
            )
            for row in data_of(body, "deposit addresses")
        )


VENUE = OkxVenue()


def _page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    """`before` asks for newer rows and `after` for older ones; neither includes the time itself."""
    newer, older = int(milliseconds(window.start)) - 1, int(milliseconds(window.end)) + 1
    of_coin = {} if coin is None else {"ccy": coin}
    return {**of_coin, "limit": str(_PAGE), "before": str(newer), "after": cursor or str(older)}
