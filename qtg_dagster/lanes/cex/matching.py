"""Is a row on a venue's record the withdrawal, or the deposit, that we mean? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Context, Decimal

from qtg_dagster.domain.chains import ChainId
from qtg_dagster.lanes.cex.venue import FeeRule, Order, Venue, WithdrawalRow

#: Sums of amounts to the last digit: the usual context rounds to 28, which coins with many units have more than.
EXACT = Context(prec=100)
_HEX_64 = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")
_BASE58_SIGNATURE = re.compile(r"[1-9A-HJ-NP-Za-km-z]{80,90}")
_OTHER_HASH = re.compile(r"[A-Za-z0-9+/=_\-]{40,100}")


def transaction_hash(chain: str, text: str | None) -> str | None:
    """The chain's own spelling of a transaction hash; None for internal ids, notes, UUIDs and blanks."""
    found = (text or "").strip()
    namespace = ChainId(chain).namespace
    hexadecimal = _HEX_64.fullmatch(found)
    if namespace == "eip155":
        return f"0x{hexadecimal.group(1).lower()}" if hexadecimal else None
    if namespace == "solana":
        return found if _BASE58_SIGNATURE.fullmatch(found) else None
    if hexadecimal:
        return hexadecimal.group(1).lower()
    return found if _OTHER_HASH.fullmatch(found) and namespace not in {"bip122", "tron"} else None


def same_address(left: str | None, right: str | None) -> bool:
    """Equality of addresses: case means nothing in hex, and everything elsewhere."""
    return _fold(left) == _fold(right)


def _fold(address: str | None) -> str | None:
    return address.lower() if address is not None and address.lower().startswith("0x") else address


def differences(order: Order, row: WithdrawalRow, venue: Venue) -> tuple[str, ...]:
    """The fields in which a row contradicts the order. A field that the row does not show contradicts nothing."""
    wrong = () if row.client_id == order.client_id else ("client_id",)
    return wrong + differing_terms(order, row, venue)


def differing_terms(order: Order, row: WithdrawalRow, venue: Venue) -> tuple[str, ...]:
    """The same, whoever asked for the withdrawal and under whatever client id."""
    checks: Iterable[tuple[str, bool]] = (
        ("coin", row.coin == order.coin),
        ("network", row.network is None or venue.network_code(row.network) == order.network),
        ("address", row.address is None or same_address(row.address, order.address)),
        ("memo", row.memo is None or row.memo == order.memo),
        ("saved_as", None in (row.saved_as, order.saved_as) or row.saved_as == order.saved_as),
        ("amount", amount_agrees(Decimal(order.amount), row, venue)),
    )
    return tuple(name for name, agrees in checks if not agrees)


def amount_agrees(asked: Decimal, row: WithdrawalRow, venue: Venue) -> bool:
    """Whether a row's amount is the amount asked for, its fee counted as the venue counts it, or may count it."""
    counted = [row.amount]
    if venue.fee_rule is not FeeRule.ON_TOP:
        counted.append(EXACT.add(row.amount, row.fee))
    if venue.fee_rule is not FeeRule.FROM_AMOUNT:
        counted.append(EXACT.subtract(row.amount, row.fee))
    return asked in counted
