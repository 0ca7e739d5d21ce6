"""A review as tables, the same on the command line and on a run's page. Warnings come first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.approvals import approvals_missing
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.review import FeeEstimate, FromNode, NotKnown, Review, ReviewedNode
from qtg_dagster.domain.review_warnings import destination_allowed, fee_ceilings, limit_decimal, warnings

Row = tuple[str, ...]
_TICKS = {True: "✓", False: "✗ not on the allowlist", None: "not known yet"}


@dataclass(frozen=True, slots=True)
class Section:
    """A table; `head` names its columns."""

    title: str
    head: Row
    rows: tuple[Row, ...]


def sections(review: Review) -> tuple[Section, ...]:
    """All there is to see, warnings first; a section without a row says so in one."""
    return (
        _section("warnings", ("warning",), ((each,) for each in warnings(review))),
        _section("movement", ("", ""), _movement(review)),
        _section(
            "plan", ("node", "does", "after", "executor", "signer", "looked at for", "config"), map(_node, review.nodes)
        ),
        _section("destinations", ("node", "destination", "allowed"), _destinations(review)),
        _section("daily limits", ("asset", "it takes", "left today", "limit", "fits"), _velocity(review)),
        _section("balances", ("held", "free", "needed", "covered", "as of"), _balances(review)),
        _section("fees", ("node", "fee", "ceiling", "how"), _fees(review)),
        _section("health", ("bound to", "state", "checked", "detail"), _health(review)),
        _section("signers", ("signer", "identity"), _signers(review)),
        _section("breakers", ("breaker", "over", "told"), _breakers(review)),
    )


def _section(title: str, head: Row, rows: Iterator[Row]) -> Section:
    found = tuple(tuple(map(visible, row)) for row in rows)
    return Section(title, head, found or (("none", *("" for _ in head[1:])),))


def visible(text: str) -> str:
    """The text with all that is not printed spelt out: what people wrote must not draw lines or move the cursor."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


def _movement(review: Review) -> Iterator[Row]:
    request, plan = review.request, review.request.stored.plan
    policy, controls = plan.approval, plan.risk_controls
    intent = request.intent
    window = "open" if not request.expired else "closed"
    yield "request", f"{request.request_id} {request.request_state}"
    yield "template", f"{plan.template_key} version {request.stored.version}: {plan.title}"
    yield "moves", " ".join(str(intent[part]) for part in ("amount", "asset") if part in intent) or "no stated amount"
    yield "to", str(intent.get("destination", "no stated destination"))
    yield "asked for by", f"{request.requested_by}{f': {review.reason}' if review.reason else ''}"
    yield "approved by", ", ".join(request.approved_by) or "nobody yet"
    missing = approvals_missing(policy, request.approved_by)
    yield "missing", f"{missing} of {policy.required}; may approve: {', '.join(policy.approvers) or 'anybody'}"
    yield "window", f"{window} until {request.expires_at:%Y-%m-%d %H:%M:%S} UTC" if request.expires_at else "no end"
    compiled, approval = review.unchanged
    yield "compiled plan hash", f"{request.compiled_plan_hash} {_matches(compiled)}"
    yield "approval digest", f"{request.approval_digest} {_matches(approval)}"
    yield "hard cap", controls.hard_cap or "none"
    yield "fee ceiling", controls.max_fee or "none"
    yield "allowlist", ", ".join(controls.destination_allowlist) or "empty: no destination is allowed"


def _matches(same: bool) -> str:
    return "✓ as stored" if same else "✗ differs from what is stored"


def _node(node: ReviewedNode) -> Row:
    after, executor = ", ".join(node.waits_for), node.executor or "a person"
    seconds = node.node.timeout_policy.observe_seconds
    patience = f"{seconds} s" if seconds else "as usual"
    return node.key, node.node.action_type, after, executor, node.signer or "", patience, _config(node.config)


def _config(config: Mapping[str, object]) -> str:
    return "; ".join(f"{name} = {_text(value)}" for name, value in redact(_plain(config)).items())


def _plain(config: Mapping[str, object]) -> dict[str, object]:
    return {name: str(value) if isinstance(value, (FromNode, NotKnown)) else value for name, value in config.items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _destinations(review: Review) -> Iterator[Row]:
    for node in review.nodes:
        if "destination" in node.config:
            destination = node.config["destination"]
            yield node.key, str(destination), _TICKS[destination_allowed(review, destination)]


def _velocity(review: Review) -> Iterator[Row]:
    if isinstance(review.velocity, NotKnown):
        yield "all", str(review.velocity), "", "", ""
        return
    later = [node for node in review.nodes if node.to_come and node.source and node.amount is None]
    taken = review.taken()
    for asset in dict.fromkeys([*taken, *(node.source.asset for node in later if node.source)]):
        limit = review.velocity.get(asset)
        more = ", ".join(node.key for node in later if node.source and node.source.asset == asset)
        takes = f"{plain_decimal(taken.get(asset, Decimal()))}{f' and what {more} will move' if more else ''}"
        if limit is None:
            yield asset, takes, "", "none", "✓"
        else:
            fits = taken.get(asset, Decimal()) <= limit_decimal(limit.left_units, limit.decimals)
            yield asset, takes, limit.text(limit.left_units), limit.text(limit.daily_units), _tick(fits)


def _tick(good: bool) -> str:
    return "✓" if good else "✗"


def _balances(review: Review) -> Iterator[Row]:
    for holding, amount in review.needed().items():
        readings = review.balances.get(holding.place, NotKnown("nobody was asked"))
        balance = readings if isinstance(readings, NotKnown) else readings.get(holding)
        if balance is None or isinstance(balance, NotKnown):
            yield str(holding), str(balance or "not known: no reading"), plain_decimal(amount), "not known", ""
            continue
        age = f"{balance.read_at:%Y-%m-%d %H:%M:%S} UTC, {'asked now' if balance.live else 'snapshot'}"
        yield str(holding), balance.free, plain_decimal(amount), _tick(Decimal(balance.free) >= amount), age
    for node in review.nodes:
        if node.to_come and node.source and (node.amount is None or review.funded_by(node)):
            paid = ", ".join(review.funded_by(node)) or "earlier nodes"
            yield str(node.source), "", f"{node.key} moves what comes from {paid}", "not known yet", ""


def _fees(review: Review) -> Iterator[Row]:
    for node in review.nodes:
        fee = review.fees.get(node.key)
        ceilings = fee_ceilings(review, node.config.get("max_fee"))
        told = ", ".join(f"{plain_decimal(ceiling)} ({name})" for name, ceiling in ceilings) or "none"
        if isinstance(fee, FeeEstimate):
            within = all(Decimal(fee.amount) <= ceiling for _, ceiling in ceilings)
            yield node.key, f"{fee.amount} {fee.asset}", f"{told} {_tick(within)}" if ceilings else told, fee.how
        elif fee is not None:
            yield node.key, "not known", told, fee.why


def _health(review: Review) -> Iterator[Row]:
    for key in review.bound():
        if isinstance(review.health, NotKnown):
            yield key, str(review.health), "", ""
        else:
            seen = review.health[key]
            checked = f"{seen.checked_at:%Y-%m-%d %H:%M:%S} UTC" if seen.checked_at else "never"
            yield key, seen.state.value, checked, seen.detail


def _signers(review: Review) -> Iterator[Row]:
    for key in dict.fromkeys(node.signer for node in review.nodes if node.signer):
        known = review.signers if isinstance(review.signers, NotKnown) else review.signers.get(key)
        told = known.told() if known and not isinstance(known, NotKnown) else str(known or "not known: never seen")
        yield key, told


def _breakers(review: Review) -> Iterator[Row]:
    for what in (review.breakers, review.scopes):
        if isinstance(what, NotKnown):
            yield str(what), "", ""
            return
    for breaker, keys in review.held_by():
        yield breaker.scope, ", ".join(keys), breaker.told()
