"""Where a withdrawal goes, asked once more of those who know: the venue's address book, and the venue it goes to."""

from __future__ import annotations

from dataclasses import replace

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.lanes.cex.accounts import VenueAccount, VenueAccounts
from qtg_dagster.lanes.cex.matching import same_address
from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.reply import LookupFailed, exact_json
from qtg_dagster.lanes.cex.venue import Order, SavedAddress

_MOST_ANSWERS = 20


async def as_saved(withdrawal: Withdrawal) -> Order:
    """The order with the destination's name in the address book, where withdrawals are asked for by name.

    Raises `InvalidInput` unless exactly one usable entry is this destination, and `LookupFailed`.
    """
    account, order = withdrawal.account, withdrawal.order
    venue = account.venue
    book = await _address_book(account, order.coin) if venue.saved_addresses_only else None
    if book is None:
        return order
    entries = [
        entry
        for entry in book
        if entry.coin in (None, order.coin)
        and venue.network_code(entry.network) == order.network
        and same_address(entry.address, order.address)
        and entry.memo == order.memo
    ]
    usable = sorted(entry.name for entry in entries if entry.usable)
    if usable:
        # Several names of one destination pay the same party: the first, so that it is the same every time.
        return replace(order, saved_as=usable[0])
    problem = "is saved and not confirmed" if entries else "is not in the address book"
    raise InvalidInput(
        "config.destination",
        f"{order.address} {problem} of {account.key} for {order.coin} over {order.network}",
        "Save and confirm it at the venue.",
    )


async def _address_book(account: VenueAccount, coin: str) -> list[SavedAddress] | None:
    """All entries that may be meant for the coin; None where the venue keeps no book that can be asked."""
    call = account.venue.address_book(coin)
    if call is None:
        return None
    found: list[SavedAddress] = []
    for _ in range(_MOST_ANSWERS):
        body = await account.read(call)
        found += account.venue.read_address_book(body)
        call = account.venue.more_of_address_book(call, body)
        if call is None:
            return found
    raise LookupFailed("TOO_MANY_ROWS", f"the address book does not end after {_MOST_ANSWERS} answers")


def as_prepared(withdrawal: Withdrawal, prepared: PreparedAction | None) -> Withdrawal:
    """With what was asked of the venue when it was prepared, and stands in the prepared action alone."""
    asked = None if prepared is None else exact_json(prepared.payload)
    if not isinstance(asked, dict):
        return withdrawal
    saved_as = asked.get("saved_as") if withdrawal.account.venue.saved_addresses_only else None
    order = replace(withdrawal.order, saved_as=saved_as, beneficiary=asked.get("beneficiary"))
    return replace(withdrawal, order=order)


async def check_still_ours(withdrawal: Withdrawal, accounts: VenueAccounts) -> None:
    """Ask the venue that the destination belongs to, if it is one of ours, whether it still takes deposits there.

    Raises `InvalidInput` for an address or memo that is no longer its, and `LookupFailed` when it cannot be asked.
    """
    config, order = withdrawal.config, withdrawal.order
    for account in accounts:
        named = account.entry.deposit_addresses.get(config.chain)
        if not same_address(named, config.destination) or config.asset not in account.entry.assets:
            continue
        network = account.network(config.chain)
        call = account.venue.deposit_address(account.coin(config.asset), network)
        if call is None:
            continue
        given = account.venue.read_deposit_addresses(await account.read(call), network)
        theirs = [found for found in given if account.venue.network_code(found.network) == network]
        if not any(same_address(found.address, order.address) and found.memo == order.memo for found in theirs):
            raise InvalidInput(
                "config.destination",
                f"{account.key} does not name {order.address} as its deposit address for {config.asset} any more",
                f"Fetch the address again and correct venues.{account.key}.deposit_addresses.",
            )
        return
