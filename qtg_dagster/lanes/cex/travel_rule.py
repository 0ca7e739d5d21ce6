"""What a venue has to be told of a withdrawal's beneficiary. It is personal data: read where it is kept when it is
needed, put into the request at the last moment, and written down nowhere. The journal has a digest of it alone."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.errors import ConfigurationError, InvalidInput
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.hidden import texts_in
from qtg_dagster.lanes.cex.matching import same_address
from qtg_dagster.lanes.cex.orders import Withdrawal
from qtg_dagster.lanes.cex.reply import LookupFailed, exact_json
from qtg_dagster.lanes.cex.venue import Call, Order, TravelRule

_NO_TIME = datetime.fromtimestamp(0, UTC)
_PURPOSE = b"qtg.cex.beneficiary.v1:"


@dataclass(frozen=True, slots=True)
class Beneficiary:
    """What is kept for one destination, in the venue's own names, and a digest that nobody can guess it from."""

    fields: Mapping[str, Any] = field(repr=False)
    digest: str


async def told_of(withdrawal: Withdrawal) -> Order:
    """The order with the digest of what the venue is told of its beneficiary, if it is told anything.

    Raises `InvalidInput` when the venue wants to know, and nothing is kept for the destination or can be told; and
    `LookupFailed` when it cannot be asked.
    """
    account, order = withdrawal.account, withdrawal.order
    required = await _is_required(account, order)
    if required is False:
        return order
    kept = _kept_for(account, order)
    if kept is None:
        if required is None:
            return order
        to = order.address if order.memo is None else f"{order.address}|{order.memo}"
        raise InvalidInput(
            _field(account),
            f"{account.key} wants to know the beneficiary at {to}",
            "Name a secret with a JSON document that has an entry for this destination.",
        )
    # Nothing is sent: what cannot be told is known before it is meant to be.
    _with(account, account.venue.submit(order, _NO_TIME), kept)
    return replace(order, beneficiary=kept.digest)


def sendable_call(withdrawal: Withdrawal, order: Order, now: datetime) -> Call:
    """The withdrawal request, with the beneficiary where the order has a digest of one.

    Raises `InvalidInput` when what is kept is not what it was when the order was prepared.
    """
    account = withdrawal.account
    call = account.venue.submit(order, now)
    if order.beneficiary is None:
        return call
    kept = _kept_for(account, order)
    if kept is None or not hmac.compare_digest(kept.digest, order.beneficiary):
        raise InvalidInput(
            _field(account),
            f"what is kept for {order.address} was changed after the withdrawal was prepared",
            "Look at what changed, and ask for the movement again.",
        )
    return _with(account, call, kept)


def refuse_wrong_record(account: VenueAccount, order: Order) -> None:
    """Raise `LookupFailed` where the account would be asked for the order on another record than it went to."""
    venue = account.venue
    if order.beneficiary is not None and venue.under_travel_rule() is not venue:
        message = f"{_field(account)} was removed, and what was asked for with it stands on a record of its own"
        raise LookupFailed("OTHER_RECORD", f"{message}. Put it back.")


async def _is_required(account: VenueAccount, order: Order) -> bool | None:
    """None where nobody says, and the venue cannot be asked."""
    if account.entry.travel_rule_required is not None:
        return account.entry.travel_rule_required
    call = account.venue.travel_rule(order)
    if call is None:
        return None
    return account.venue.read_travel_rule(await account.read(call), order) is TravelRule.BENEFICIARY


def _with(account: VenueAccount, call: Call, kept: Beneficiary) -> Call:
    try:
        told = account.venue.with_beneficiary(call, kept.fields)
    except InvalidInput as problem:
        raise InvalidInput(_field(account), problem.problem, problem.fix) from None
    if told is None:
        raise InvalidInput(
            _field(account),
            f"{account.key} takes nothing about beneficiaries in requests",
            "Remove it, and save the beneficiary with the address at the venue.",
        )
    changed = [name for name, value in call.params.items() if told.params.get(name) != value]
    changed += [name for name, value in call.objects.items() if told.objects.get(name) != value]
    if changed:  # what is told of a person says nothing of how much goes where
        message = f"what is kept would change {', '.join(changed)} of the withdrawal itself"
        raise InvalidInput(_field(account), message, "Leave it out.")
    for name, value in told.params.items():
        if not isinstance(value, str):
            message = f"{name} has to be text for {account.key}"
            raise InvalidInput(_field(account), message, "Put it in quotation marks.")
    return replace(told, private=tuple(dict.fromkeys((*told.private, *texts_in(kept.fields)))))


def _kept_for(account: VenueAccount, order: Order) -> Beneficiary | None:
    """What is kept for exactly this destination: a memo makes it another one."""
    for destination, fields in _document(account).items():
        address, _, memo = destination.partition("|")
        if same_address(address.strip(), order.address) and (memo.strip() or None) == order.memo:
            if not isinstance(fields, dict) or not fields:
                problem = f"the entry for {destination} is no object with the venue's fields"
                raise InvalidInput(_field(account), problem, "Correct it.")
            return Beneficiary(fields, _digest(account, order, fields))
    return None


def _document(account: VenueAccount) -> Mapping[str, Any]:
    source = account.entry.travel_rule
    if source is None:
        return {}
    try:
        text = source.read(_field(account)).expose()
    except ConfigurationError as problem:
        raise InvalidInput(_field(account), str(problem), "Put the document there.") from None
    found = exact_json(text)
    if not isinstance(found, dict):  # without a word of what stands in it
        message = "what is kept is no JSON object of destinations"
        raise InvalidInput(_field(account), message, "Write destination -> the venue's fields.")
    return found


def _digest(account: VenueAccount, order: Order, fields: Mapping[str, Any]) -> str:
    """Keyed with what only this account has: names are few, and a plain hash of one is as good as the name."""
    key = account.entry.api_secret.read(f"venues.{account.key}.api_secret").expose().encode()
    text = canonical_json({"address": order.address.lower(), "memo": order.memo, "fields": dict(fields)})
    return hmac.new(key, _PURPOSE + text.encode(), hashlib.sha256).hexdigest()


def _field(account: VenueAccount) -> str:
    return f"venues.{account.key}.travel_rule"
