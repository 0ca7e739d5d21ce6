"""Movements that others make on the account: rows in the histories that the client under test knows nothing of."""

from __future__ import annotations

import secrets

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.errors import Conflict, NotFound
from qtg_dagster.sandbox.exchange.books import Bucket, MoveKind
from qtg_dagster.sandbox.exchange.declined import Reason
from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialect import Role
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.withdrawals import RETURNED, WithdrawalStatus

#: Who signed what others were paid by; no hot wallet of a venue has such a name.
_OTHERS = "others"


def arrive(
    venue: Venue,
    role: Role,
    count: int,
    *,
    coin: str | None = None,
    newest_ms: int | None = None,
    spacing_ms: int = 0,
    status: int | None = None,
) -> list[str]:
    """Add `count` rows to a history in one commit, the newest now or at `newest_ms`; their ids, newest first.

    All are of the least amount. Without a status, withdrawals are called off at once, so that no balance changes in the
    end, and deposits are transfers inside the venue and stay. A coin that is not named is the venue's first.
    """
    newest = venue.now_ms() if newest_ms is None else newest_ms
    chosen = coin or next(iter(venue.config.coins))
    times = [newest - number * spacing_ms for number in reversed(range(count))]
    with venue.ledger.transaction():
        if role is Role.DEPOSITS:
            deposited = DepositStatus.SUCCESS if status is None else DepositStatus(status)
            return [_deposit(venue, chosen, at_ms, deposited) for at_ms in times][::-1]
        ended = WithdrawalStatus.CANCELLED if status is None else WithdrawalStatus(status)
        return [_withdrawal(venue, chosen, at_ms, ended) for at_ms in times][::-1]


def go_on(venue: Venue, role: Role, key: str, status: int, *, at_ms: int | None = None) -> None:
    """Bring a row that others made, and that has not ended, to another status, as the books have it too.

    Raises `NotFound`, or `Conflict` for a row that has ended: an end is shown otherwise with `show_status` alone.
    """
    table = "deposits" if role is Role.DEPOSITS else "withdrawals"
    row = venue.ledger.row(f"SELECT * FROM {table} WHERE venue = ? AND id = ?", (venue.key, key))  # noqa: S608
    if row is None:
        raise NotFound(f"venue {venue.key} has no {key} among its {table}")
    at_ms = venue.now_ms() if at_ms is None else at_ms
    with venue.ledger.transaction():
        if role is Role.DEPOSITS:
            _deposit_goes_on(venue, dict(row), DepositStatus(status), at_ms)
        else:
            _withdrawal_goes_on(venue, dict(row), WithdrawalStatus(status), at_ms)


def _withdrawal(venue: Venue, coin: str, at_ms: int, status: WithdrawalStatus) -> str:
    network = venue.config.coins[coin].default_network()
    terms = venue.config.coins[coin].networks[network]
    fee = venue.config.amount(coin, terms.withdraw_fee)
    net = _least(venue, coin, terms.withdraw_min)
    if venue.books.balance(venue.key, coin).free < net + fee:
        raise Conflict(f"{venue.key} takes no more {coin} withdrawals of others: {Reason.INSUFFICIENT}")
    key = venue.dialect.withdrawal_id()
    venue.ledger.write(
        "INSERT INTO withdrawals (id, venue, coin, network, address, net, fee, status, applied_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(key, venue.key, coin, network, _address(), net.to_text(), fee.to_text()),
            *(WithdrawalStatus.AWAITING_APPROVAL.value, at_ms),
        ),
    )
    venue.books.post(venue.key, MoveKind.WITHDRAWAL_HOLD, net + fee, Bucket.FREE, Bucket.WITHDRAWING, key)
    if status is not WithdrawalStatus.AWAITING_APPROVAL:
        row = venue.ledger.row("SELECT * FROM withdrawals WHERE id = ?", (key,))
        assert row is not None  # noqa: S101 - it was written above
        _withdrawal_goes_on(venue, dict(row), status, at_ms)
    return key


def _withdrawal_goes_on(venue: Venue, row: dict[str, object], status: WithdrawalStatus, at_ms: int) -> None:
    key, coin = str(row["id"]), str(row["coin"])
    if WithdrawalStatus(int(str(row["status"]))) in (*RETURNED, WithdrawalStatus.COMPLETED):
        raise Conflict(f"withdrawal {key} has ended")
    ended = status in (*RETURNED, WithdrawalStatus.COMPLETED)
    venue.ledger.write(
        "UPDATE withdrawals SET status = ?, completed_ms = ?, confirmations = ? WHERE id = ?",
        (status.value, at_ms if ended else None, int(status is WithdrawalStatus.COMPLETED), key),
    )
    net, fee = (venue.config.amount(coin, str(row[name])) for name in ("net", "fee"))
    if status in RETURNED:
        out, back = Bucket.WITHDRAWING, Bucket.FREE
        venue.books.post(venue.key, MoveKind.WITHDRAWAL_RETURN, net + fee, out, back, key)
    elif status is WithdrawalStatus.COMPLETED:
        out = Bucket.WITHDRAWING
        venue.books.post(venue.key, MoveKind.WITHDRAWAL_PAID, net, out, Bucket.OUTSIDE, key)
        venue.books.post(venue.key, MoveKind.WITHDRAWAL_FEE, fee, out, Bucket.FEES, key)
        venue.ledger.write(
            "INSERT INTO payouts (withdrawal_id, sender, nonce, raw, tx_hash, broadcast, settled)"
            " VALUES (?, ?, ?, '', ?, 1, 1)",
            (key, _OTHERS, row["seq"], _tx_hash()),
        )


def _deposit(venue: Venue, coin: str, at_ms: int, status: DepositStatus) -> str:
    network = venue.config.coins[coin].default_network()
    terms = venue.config.coins[coin].networks[network]
    amount, key, tx_hash = _least(venue, coin, terms.withdraw_min), venue.dialect.deposit_id(), _tx_hash()
    venue.ledger.write(
        "INSERT INTO deposits (id, venue, coin, network, address, source_address, amount, status, tx_hash,"
        " log_position, block_number, block_hash, confirmations, inserted_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, -1, 0, '', 0, ?)",
        (
            *(key, venue.key, coin, network, terms.deposit_address, _address(), amount.to_text()),
            *(DepositStatus.PENDING.value, tx_hash, at_ms),
        ),
    )
    if status is not DepositStatus.PENDING:
        row = venue.ledger.row("SELECT * FROM deposits WHERE id = ?", (key,))
        assert row is not None  # noqa: S101 - it was written above
        _deposit_goes_on(venue, dict(row), status, at_ms)
    return key


def _deposit_goes_on(venue: Venue, row: dict[str, object], status: DepositStatus, at_ms: int) -> None:
    before, key, coin = DepositStatus(int(str(row["status"]))), str(row["id"]), str(row["coin"])
    if before in (DepositStatus.SUCCESS, DepositStatus.REJECTED, DepositStatus.WRONG):
        raise Conflict(f"deposit {key} has ended")
    amount = venue.config.amount(coin, str(row["amount"]))
    reference = f"{row['tx_hash']}:{row['log_position']}"
    credited = status in (DepositStatus.SUCCESS, DepositStatus.CREDITED_LOCKED)
    if credited and before is DepositStatus.CREDITED_LOCKED:
        venue.books.post(venue.key, MoveKind.DEPOSIT_UNLOCK, amount, Bucket.FROZEN, Bucket.FREE, reference)
    elif credited:
        bucket = Bucket.FREE if status is DepositStatus.SUCCESS else Bucket.FROZEN
        venue.books.post(venue.key, MoveKind.DEPOSIT_CREDIT, amount, Bucket.OUTSIDE, bucket, reference)
    confirmations = venue.config.coins[coin].networks[str(row["network"])].confirmations
    venue.ledger.write(
        "UPDATE deposits SET status = ?, confirmations = ?, completed_ms = ? WHERE id = ?",
        (
            *(status.value, confirmations if credited else 0),
            *(at_ms if status is DepositStatus.SUCCESS else None, key),
        ),
    )


def _least(venue: Venue, coin: str, minimum: str) -> Amount:
    least = venue.config.amount(coin, minimum)
    return least if least.base_units else Amount(venue.config.asset(coin), 1)


def _address() -> str:
    return "0x" + secrets.token_hex(20)


def _tx_hash() -> str:
    return "0x" + secrets.token_hex(32)
