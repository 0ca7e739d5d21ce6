"""Movements that others make on the account: rows in the histories that the client under test knows nothing of."""

from __future__ import annotations

import secrets

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.sandbox.exchange.books import Bucket, MoveKind
from qtg_dagster.sandbox.exchange.declined import Declined
from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialect import Role
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalAsked, WithdrawalStatus


def arrive(
    venue: Venue,
    role: Role,
    count: int,
    *,
    coin: str | None = None,
    newest_ms: int | None = None,
    spacing_ms: int = 0,
) -> list[str]:
    """Add `count` rows to a history, oldest first, the newest now or at `newest_ms`; their ids, newest first.

    Withdrawals are of the least amount and called off at once, so that no balance changes in the end; deposits are
    transfers inside the venue and stay. A coin that is not named is the venue's first.
    """
    newest = venue.now_ms() if newest_ms is None else newest_ms
    chosen = coin or next(iter(venue.config.coins))
    add = _deposit if role is Role.DEPOSITS else _withdrawal
    times = [newest - number * spacing_ms for number in reversed(range(count))]
    return [add(venue, chosen, at_ms) for at_ms in times][::-1]


def _withdrawal(venue: Venue, coin: str, at_ms: int) -> str:
    network = venue.config.coins[coin].default_network()
    terms = venue.config.coins[coin].networks[network]
    fee = venue.config.amount(coin, terms.withdraw_fee)
    net = _least(venue, coin, terms.withdraw_min)
    asked = WithdrawalAsked(coin, network, _address(), None, net + fee, fee, None)
    try:
        key = venue.desk.accept(asked, now_ms=at_ms, key=venue.dialect.withdrawal_id())
    except Declined as declined:
        raise Conflict(f"{venue.key} takes no more {coin} withdrawals of others: {declined.reason}") from None
    venue.desk.give_back(key, WithdrawalStatus.CANCELLED, "", now_ms=at_ms)
    return key


def _deposit(venue: Venue, coin: str, at_ms: int) -> str:
    network = venue.config.coins[coin].default_network()
    terms = venue.config.coins[coin].networks[network]
    amount, key, tx_hash = _least(venue, coin, terms.withdraw_min), venue.dialect.deposit_id(), _tx_hash()
    with venue.ledger.transaction():
        venue.ledger.write(
            "INSERT INTO deposits (id, venue, coin, network, address, source_address, amount, status, tx_hash,"
            " log_position, block_number, block_hash, confirmations, inserted_ms, completed_ms)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, -1, 0, '', ?, ?, ?)",
            (
                key,
                venue.key,
                coin,
                network,
                terms.deposit_address,
                _address(),
                amount.to_text(),
                DepositStatus.SUCCESS.value,
                tx_hash,
                terms.confirmations,
                at_ms,
                at_ms,
            ),
        )
        venue.books.post(venue.key, MoveKind.DEPOSIT_CREDIT, amount, Bucket.OUTSIDE, Bucket.FREE, f"{tx_hash}:-1")
    return key


def _least(venue: Venue, coin: str, minimum: str) -> Amount:
    least = venue.config.amount(coin, minimum)
    return least if least.base_units else Amount(venue.config.asset(coin), 1)


def _address() -> str:
    return "0x" + secrets.token_hex(20)


def _tx_hash() -> str:
    return "0x" + secrets.token_hex(32)
