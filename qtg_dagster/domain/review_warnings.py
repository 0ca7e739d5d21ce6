"""What speaks against approving a movement, in plain sentences, the gravest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.contract import HealthState
from qtg_dagster.domain.errors import RiskControlViolated
from qtg_dagster.domain.review import FeeEstimate, FromNode, NotKnown, Review, decimal_of
from qtg_dagster.domain.risk import check_destination
from qtg_dagster.domain.signer_identity import Posture
from qtg_dagster.domain.states import RequestState


def warnings(review: Review) -> tuple[str, ...]:
    """Every warning there is; what could not be read is one as well."""
    judges: tuple[Callable[[Review], Iterable[str]], ...] = (
        _drift,
        _window,
        _values,
        _limits,
        _velocity,
        _breakers,
        _health,
        _identities,
        _balances,
        _fees,
    )
    return tuple(found for judge in judges for found in judge(review))


def destination_allowed(review: Review, destination: object) -> bool | None:
    """Whether the template's allowlist has it; None for what is not known yet."""
    if not isinstance(destination, str):
        return None
    try:
        check_destination(review.request.stored.plan.risk_controls, destination, field="destination")
    except RiskControlViolated:
        return False
    return True


def _drift(review: Review) -> Iterator[str]:
    compiled, approval = review.unchanged
    if not compiled:
        yield "the plan is not the one that was compiled when the movement was created: it cannot be approved"
    elif not approval:
        yield "limits, timeouts or approvers are not those of when the movement was created: it cannot be approved"


def _window(review: Review) -> Iterator[str]:
    request = review.request
    if request.request_state is not RequestState.PENDING_APPROVAL:
        yield f"the movement is {request.request_state}: there is nothing to approve"
    elif request.expired:
        yield f"the approval window has closed ({request.expires_at:%Y-%m-%d %H:%M:%S} UTC)"


def _values(review: Review) -> Iterator[str]:
    for node in review.nodes:
        for name, value in node.open_values.items():
            if isinstance(value, NotKnown):
                yield f"{node.key}: {name}: {value.why}; the node cannot run"


def _limits(review: Review) -> Iterator[str]:
    controls = review.request.stored.plan.risk_controls
    cap = decimal_of(controls.hard_cap)
    for name, stated in (("hard_cap", controls.hard_cap), ("max_fee", controls.max_fee)):
        if stated is not None and decimal_of(stated) is None:
            yield f"the template's {name} of {stated!r} is no amount: no node can be judged by it"
    for node in review.nodes:
        stated = node.config.get("amount")
        amount = decimal_of(stated)
        if node.node.has_side_effect and isinstance(stated, str) and not amount:
            yield f"{node.key}: {stated!r} is no amount above zero; the node cannot run"
        if node.node.has_side_effect and cap is not None and amount is not None and amount > cap:
            yield f"{node.key}: {plain_decimal(amount)} is over the template's hard cap of {controls.hard_cap}"
        destination = node.config.get("destination")
        if destination_allowed(review, destination) is False:
            yield f"{node.key}: {destination} is not on the template's allowlist"


def _velocity(review: Review) -> Iterator[str]:
    if isinstance(review.velocity, NotKnown):
        yield f"velocity limits are {review.velocity}"
        return
    for asset, amount in review.taken().items():
        limit = review.velocity.get(asset)
        if limit is None or amount <= limit_decimal(limit.left_units, limit.decimals):
            continue
        left, daily = limit.text(limit.left_units), limit.text(limit.daily_units)
        takes = f"it takes {plain_decimal(amount)} {asset}"
        yield f"{takes}, and {left} is left of today's limit of {daily}: it does not fit"


def _breakers(review: Review) -> Iterator[str]:
    for what in (review.breakers, review.scopes):
        if isinstance(what, NotKnown):
            yield f"breakers that would hold it back are {what}"
            return
    for breaker, keys in review.held_by():
        verb = "lets through in turns" if breaker.released else "holds back"
        yield f"the breaker on {breaker.scope} {verb} {', '.join(keys)}: {breaker.told()}"


def _health(review: Review) -> Iterator[str]:
    if isinstance(review.health, NotKnown):
        yield f"the health of executors and signers is {review.health}"
        return
    for key in review.bound():
        seen = review.health[key]
        if seen.state is not HealthState.HEALTHY:
            when = f", checked {seen.checked_at:%Y-%m-%d %H:%M:%S} UTC" if seen.checked_at else ""
            yield f"{key} is {seen.state.value}: {seen.detail or 'without a reason'}{when}"


def _identities(review: Review) -> Iterator[str]:
    bound = sorted({node.signer for node in review.nodes if node.signer})
    if isinstance(review.signers, NotKnown):
        if bound:
            yield f"the identity of {', '.join(bound)} is {review.signers}"
        return
    for key in bound:
        known = review.signers.get(key)
        if known is None:
            yield f"{key}: nobody has enrolled it, and it has not been seen"
        elif known.posture is not Posture.MATCHES:
            yield f"{key}: {known.told()}"


def _balances(review: Review) -> Iterator[str]:
    needed = review.needed()
    for place in sorted({holding.place for holding in needed}):
        readings = review.balances.get(place, NotKnown("nobody was asked"))
        if isinstance(readings, NotKnown):
            yield f"balances at {place} are {readings}"
            continue
        for holding, amount in needed.items():
            if holding.place != place:
                continue
            balance = readings.get(holding)
            if balance is None:
                yield f"the balance of {holding} is not known: {place} reports none"
                continue
            if balance.problem:
                yield f"the balance of {holding} is of {balance.read_at:%Y-%m-%d %H:%M:%S} UTC: {balance.problem}"
            if Decimal(balance.free) < amount:
                yield f"{holding}: {balance.free} is free and {plain_decimal(amount)} is needed: it is not covered"


def _fees(review: Review) -> Iterator[str]:
    for node in review.nodes:
        fee = review.fees.get(node.key)
        if isinstance(fee, FeeEstimate):
            for name, ceiling in fee_ceilings(review, node.config.get("max_fee")):
                if Decimal(fee.amount) > ceiling:
                    yield f"{node.key}: a fee of {fee.amount} {fee.asset} is over {name} of {plain_decimal(ceiling)}"
        elif isinstance(fee, NotKnown) and not fee.expected:
            yield f"{node.key}: the fee is {fee}"


def fee_ceilings(review: Review, stated: object) -> list[tuple[str, Decimal]]:
    """The ceilings of a node's fee: the template's, and the node's own."""
    template = decimal_of(review.request.stored.plan.risk_controls.max_fee)
    own = None if isinstance(stated, FromNode) else decimal_of(stated)
    named = (("the template's max_fee", template), ("the node's max_fee", own))
    return [(name, ceiling) for name, ceiling in named if ceiling is not None]


def limit_decimal(units: int, decimals: int) -> Decimal:
    """Base units as an exact decimal."""
    return Decimal((0, tuple(int(digit) for digit in str(units)), -decimals))
