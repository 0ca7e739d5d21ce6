"""KuCoin's wire: withdrawals from the main account, our id in a remark, chains by an id in lower case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import Rows
from qtg_dagster.lanes.cex.readings import field, milliseconds, moment
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
    Unlisted,
    Venue,
    Window,
    WithdrawalRow,
)
from qtg_dagster.lanes.cex.venues.kucoin.accounts import (
    balances_of,
    deposit_addresses,
    key_problem,
    network_rules,
    with_quota,
)
from qtg_dagster.lanes.cex.venues.kucoin.records import (
    SUCCESS,
    chain_code,
    data_of,
    deposit_rows,
    is_made_up,
    page_of,
    withdrawal_row,
    withdrawals_in,
)

#: Not among them: what the second copy of a taken request gets too, which came late (400002) or finds too little left
#: (230003, 260100). Our id cannot be asked for, so nothing would make such a refusal believable.
REFUSALS = frozenset({"400001", "400003", "400004", "400005", "400006", "400007", "900014"})
ACCESS_CODES: Mapping[str, Access] = {
    "400002": Access.CLOCK,
    **dict.fromkeys(("400003", "400008", "400009"), Access.WRONG_KEY),  # 400008: a key of an older make
    "400004": Access.WRONG_PASSPHRASE,
    "400005": Access.WRONG_SIGNATURE,
    "400006": Access.IP_NOT_ALLOWED,
    **dict.fromkeys(("400007", "400010", "411100"), Access.NO_PERMISSION),
    **dict.fromkeys(("503", "503000"), Access.MAINTENANCE),
}
_BY_ID = Unlisted("private", "GET", "withdrawals/{withdrawalId}", 20.0)
_PAGE = 500


@dataclass(frozen=True, slots=True)
class _ByPageOfMany:
    """Pages counted from one; every answer says which it is and how many there are."""

    rows_shift: ClassVar[bool] = True

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:
        page = data_of(body, "page")
        number, size, pages, total = (
            _whole(field(page, name, "page"), name) for name in ("currentPage", "pageSize", "totalPage", "totalNum")
        )
        if number != int(cursor or "1"):
            raise LookupFailed("OTHER_PAGE", f"page {number} was answered where page {cursor or 1} was asked for")
        seen = (number - 1) * size + len(rows)
        if number < pages and rows:
            return str(number + 1)
        if seen < total:
            raise LookupFailed("PAGES_END_EARLY", f"{total} rows are told of, and {seen} were shown")
        return None


def _whole(value: Any, name: str) -> int:
    told = str(value)
    if not (told.isascii() and told.isdigit()):
        raise LookupFailed("MALFORMED", f"page: {name} is {value!r}")
    return int(told)


def _read_submit(body: Any) -> SubmitBody:
    if not isinstance(body, dict):
        return SubmitBody()
    code, data = str(body.get("code") or ""), body.get("data")
    return SubmitBody(
        error_code=None if code in (SUCCESS, "") else code,
        message=str(body.get("msg") or ""),
        withdrawal_id=data.get("withdrawalId") if isinstance(data, dict) else None,
        success=code == SUCCESS and str(body.get("msg") or "").lower() in ("", "success"),  # it comes with a no as well
    )


class KucoinVenue(Venue):
    """What is asked for arrives, as the fee is asked to be taken beside it: left open, the balance would decide.

    Our id is the remark. Rows show it, and cannot be asked for by it; one that hides it is a person's.
    """

    ccxt_id = "kucoin"
    payload_format = "kucoin.withdrawal.v1"
    wallet = "main"
    fee_rule = FeeRule.ON_TOP
    identity = Identity.ON_ROWS
    request_lifetime = timedelta(seconds=5)
    history_window = timedelta(days=7)
    ids_per_lookup = 1
    ids_of_one_coin = True
    ends_told_by_id = True
    takes_copies = True
    histories_of_all_coins = False
    withdrawal_pages = deposit_pages = _ByPageOfMany()
    access_codes = ACCESS_CODES
    submit_cost = 5.0
    rate_window_seconds = 30.0
    submit_rules = SubmitRules(
        read=_read_submit,
        refusals=REFUSALS,
        duplicate_texts=("duplicate", "already exist", "repeat", "resubmit"),
    )

    def network_code(self, name: str) -> str:
        return chain_code(name)

    def submit(self, order: Order, signed_at: datetime) -> Call:  # noqa: ARG002 - ccxt stamps the header itself
        params = {
            "currency": order.coin,
            "chain": order.network,
            "toAddress": order.address,
            "amount": order.amount,
            "withdrawType": "ADDRESS",
            "feeDeductType": "EXTERNAL",
            "remark": order.client_id,
        }
        if order.memo is not None:
            params["memo"] = order.memo
        return Call("privatePostWithdrawals", params, moves_money=True)

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], coin: str, window: Window) -> Call:
        """A row that came without an id is looked for where it was seen."""
        (withdrawal_id,) = withdrawal_ids
        if is_made_up(withdrawal_id):
            return self.withdrawals(coin, window, None)
        return Call("withdrawalById", {"withdrawalId": withdrawal_id}, unlisted=_BY_ID)

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privateGetWithdrawals", _page(coin, window, cursor))

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(withdrawal_row(row) for row in withdrawals_in(body))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privateGetDeposits", _page(coin, window, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return deposit_rows(page_of(body, "deposits"))

    def system_status(self) -> Call:
        return Call("publicGetStatus")

    def read_system_problem(self, body: Any) -> str | None:
        found = data_of(body, "status")
        status = str(field(found, "status", "status"))
        return None if status == "open" else f"the venue reports {status} {found.get('msg') or ''}".strip()

    def permissions(self) -> Call:
        return Call("privateGetUserApiKey")

    def read_permission_problem(self, body: Any) -> str | None:
        return key_problem(body)

    def server_time(self) -> Call:
        return Call("publicGetTimestamp")

    def read_server_time(self, body: Any) -> datetime:
        return moment(data_of(body, "server time"))

    def networks(self, coin: str) -> tuple[Call, ...]:
        return (Call("publicGetCurrenciesCurrency", {"currency": coin}),)

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        (body,) = bodies
        return network_rules(body, coin)

    def terms(self, coin: str, network: str) -> Call:
        return Call("privateGetWithdrawalsQuotas", {"currency": coin, "chain": network})

    def read_terms(self, body: Any, rules: NetworkRules) -> NetworkRules:
        return with_quota(body, rules)

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return Call("privateGetAccounts", {"type": "main"})

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        return balances_of(body, "main")

    def other_wallets(self) -> Mapping[str, Call]:
        return {"trade": Call("privateGetAccounts", {"type": "trade"})}

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:
        return balances_of(body, wallet)

    def deposit_address(self, coin: str, network: str) -> Call:  # noqa: ARG002 - all networks are answered
        return Call("privateGetDepositAddresses", {"currency": coin, "version": "v3"})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:  # noqa: ARG002
        return deposit_addresses(body)


VENUE = KucoinVenue()


def _page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    if coin is None:
        raise LookupFailed("NEEDS_A_COIN", "histories are told of one coin at a time")
    bounds = {"startAt": milliseconds(window.start), "endAt": milliseconds(window.end)}
    return {"currency": coin, "currentPage": cursor or "1", "pageSize": str(_PAGE), **bounds}
