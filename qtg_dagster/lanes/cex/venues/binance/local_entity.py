"""Accounts of Binance's local entities, where withdrawals go out under the travel rule and stand on another record.

What was asked for without it stands on the first record alone, and may not on this one: both are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from qtg_dagster.lanes.cex.paging import Rows
from qtg_dagster.lanes.cex.readings import field, ident, rows, start_end, state_in, text
from qtg_dagster.lanes.cex.venue import Call, RowState, Unlisted, Venue, Window, WithdrawalRow
from qtg_dagster.lanes.cex.venues.binance.rows import WITHDRAWAL_STATES, withdrawal_row
from qtg_dagster.lanes.cex.venues.binance.wire import PAGE, TOLD, BinanceVenue, page

_FIRST_RECORD = "first:"
_TOLD, _REFUSED = "0", "2"
_ENDED = frozenset({"1", "3", "5", "6"})
_HISTORY = Unlisted("sapiV2", "GET", "localentity/withdraw/history", cost=2.0)


@dataclass(frozen=True, slots=True)
class BothRecords:
    """The pages of the record under the travel rule, and after them those of the first one."""

    rows_shift: ClassVar[bool] = True
    size: int

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:  # noqa: ARG002
        first = (cursor or "").startswith(_FIRST_RECORD)
        if len(rows) >= self.size:
            after = str(int((cursor or "0").removeprefix(_FIRST_RECORD)) + self.size)
            return f"{_FIRST_RECORD}{after}" if first else after
        return None if first else f"{_FIRST_RECORD}0"


class LocalEntityVenue(BinanceVenue):
    """Binance for an account with `travel_rule`. Ids of its withdrawals are `tr` and the number of their record."""

    withdrawal_pages = BothRecords(PAGE)

    def under_travel_rule(self) -> Venue:
        return self

    def withdrawal_by_client_id(self, client_id: str, window: Window) -> tuple[Call, ...]:
        asked = {"withdrawOrderId": client_id, **start_end(window)}
        return (_told(asked), Call("sapiGetCapitalWithdrawHistory", asked))

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], coin: str, window: Window) -> tuple[Call, ...]:  # noqa: ARG002
        told = [found.removeprefix(TOLD) for found in withdrawal_ids if _is_told(found)]
        first = [found for found in withdrawal_ids if not _is_told(found)]
        calls = []
        if told:
            calls.append(_told({"trId": ",".join(told), **start_end(window)}))
        if first:
            asked = {"idList": ",".join(first), **start_end(window)}
            calls.append(Call("sapiGetCapitalWithdrawHistory", asked))
        return tuple(calls)

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        if (cursor or "").startswith(_FIRST_RECORD):
            return super().withdrawals(coin, window, str(cursor).removeprefix(_FIRST_RECORD))
        return _told(page(coin, window, cursor))

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(
            _told_row(row) if row.get("trId") is not None else withdrawal_row(row)
            for row in rows(body, "withdrawal history")
        )


def _told(params: Mapping[str, str]) -> Call:
    return Call("sapiV2GetLocalentityWithdrawHistory", params, unlisted=_HISTORY)


def _is_told(withdrawal_id: str) -> bool:
    return withdrawal_id.startswith(TOLD) and withdrawal_id.removeprefix(TOLD).isdigit()


def _told_row(row: Mapping[str, Any]) -> WithdrawalRow:
    """A row under the travel rule. The withdrawal itself begins once the rule is done with it."""
    told_as = f"{TOLD}{ident(row, 'trId', 'withdrawal')}"
    rule = str(field(row, "travelRuleStatus", "withdrawal"))
    status = text(row.get("withdrawalStatus"))
    seen = withdrawal_row({**row, "id": told_as, "status": "0" if status is None else status})
    state, raw, listed = _state(rule, status)
    return replace(seen, state=state, raw_status=raw, status_listed=listed, raw=row, other_id=text(row.get("id")))


def _state(rule: str, status: str | None) -> tuple[RowState, str, bool]:
    """Pending and refused by the rule alike wait for a person: nothing says that funds came back."""
    raw = f"{status or 'none'}, travel rule {rule}"
    if rule == _TOLD or status in _ENDED:
        state, listed = state_in(WITHDRAWAL_STATES, status or "0")
        return state, raw, listed
    return (RowState.HELD, raw, True) if rule in ("1", _REFUSED) else (RowState.PENDING, raw, False)
