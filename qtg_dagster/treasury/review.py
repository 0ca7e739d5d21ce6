"""Reading all that an approver must see of a movement. Nothing is written, reserved or prepared anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from qtg_dagster.domain.balances import BalanceFetcher
from qtg_dagster.domain.contract import ExecutionContext
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.domain.requests import LockedRequest
from qtg_dagster.domain.review import (
    Balance,
    Balances,
    FeeEstimate,
    Holding,
    LastHealth,
    NotKnown,
    Review,
    ReviewedNode,
    reviewed_nodes,
)
from qtg_dagster.domain.signer_identity import SignerIdentity
from qtg_dagster.domain.velocity import VelocityLimit
from qtg_dagster.engine.context import idempotency_key
from qtg_dagster.engine.parts import Engine
from qtg_dagster.executors.contract import EstimatesFees
from qtg_dagster.executors.patience import answer_within
from qtg_dagster.inventory import Inventory
from qtg_dagster.store.breakers import standing_breakers
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.last_known import (
    AgedBalance,
    NodeRow,
    read_free_balances,
    read_last_health,
    read_node_rows,
    reading,
)
from qtg_dagster.store.signer_identity import read_roster
from qtg_dagster.store.views import read_movement

PATIENCE_SECONDS = 4.0
#: A snapshot that missed this many rounds is old.
_ROUNDS = 2
T = TypeVar("T")


async def review_movement(
    engine: Engine, fetchers: Sequence[BalanceFetcher], request_id: str, *, patience: float = PATIENCE_SECONDS
) -> Review:
    """The movement and all around it; what does not answer within `patience` seconds, twice, is said to be not known.

    Raises `NotFound`.
    """
    network_class = engine.settings.network_class
    request = await engine.store.read_request(request_id, network_class)
    nodes = tuple(replace(node, source=_source(node, engine.inventory)) for node in reviewed_nodes(request))
    bound = set(request.resolved_bindings.values())

    async def ask(question: Callable[[Transaction], Awaitable[T]]) -> T:
        async with reading(engine.database) as transaction:
            return await question(transaction)

    async def health() -> dict[str, LastHealth]:
        return await ask(lambda tx: read_last_health(tx, network_class, bound))

    async def signers() -> dict[str, SignerIdentity]:
        return {each.signer_key: each for each in await ask(lambda tx: read_roster(tx, network_class))}

    async def reason() -> str:
        return (await ask(lambda tx: read_movement(tx, network_class, request_id))).reason

    rows = await _known(lambda: ask(lambda tx: read_node_rows(tx, request_id)), patience)
    (why, breakers, velocity, seen, roster), (balances, fees) = await asyncio.gather(
        asyncio.gather(
            _known(reason, patience),
            _known(lambda: ask(lambda tx: standing_breakers(tx, network_class)), patience),
            _known(lambda: _velocity(engine), patience),
            _known(health, patience),
            _known(signers, patience),
        ),
        asyncio.gather(
            _balances(engine, fetchers, nodes, patience),
            _fees(engine, request, nodes, rows, patience),
        ),
    )
    return Review(
        request=request,
        nodes=nodes,
        reason=str(why),
        scopes=rows if isinstance(rows, NotKnown) else {key: row.scopes for key, row in rows.items()},
        breakers=breakers,
        velocity=velocity,
        health=seen,
        signers=roster,
        balances=balances,
        fees=fees,
    )


def _source(node: ReviewedNode, inventory: Inventory) -> Holding | None:
    """What a node takes from, if it names one of our holdings."""
    asset, venue, chain = (node.config.get(name) for name in ("asset", "venue", "chain"))
    if not node.node.has_side_effect or not isinstance(asset, str):
        return None
    if isinstance(venue, str):
        entry = inventory.venues.get(venue)
        return Holding(venue, entry.account, asset) if entry else None
    account = inventory.accounts.get(str(node.config.get("account")))
    return Holding(account.chain, account.address, asset) if account and account.chain == chain else None


async def _velocity(engine: Engine) -> dict[str, VelocityLimit]:
    limits = {limit.asset: limit for limit in await engine.store.velocity_limits(engine.settings.network_class)}
    symbols = {key: entry.symbol for key, entry in engine.inventory.assets.items()}
    return {key: limits[symbol] for key, symbol in symbols.items() if symbol in limits}


async def _balances(
    engine: Engine, fetchers: Sequence[BalanceFetcher], nodes: Sequence[ReviewedNode], patience: float
) -> dict[str, Balances | NotKnown]:
    places = sorted({node.source.place for node in nodes if node.source})
    by_place = {fetcher.venue_key: fetcher for fetcher in fetchers}
    paying = {place: by_place[place].paying_wallet if place in by_place else None for place in places}

    async def snapshots() -> dict[Holding, AgedBalance]:
        async with reading(engine.database) as transaction:
            return await read_free_balances(transaction, engine.settings.network_class, paying)

    stored = await _known(snapshots, patience)
    settings = engine.settings
    on = settings.workers_enabled and settings.balance_snapshot_enabled
    bound = _ROUNDS * settings.balance_snapshot_interval_seconds if on else 0

    async def at(place: str) -> Balances | NotKnown:
        kept = {} if isinstance(stored, NotKnown) else {key: each for key, each in stored.items() if key.place == place}
        if kept and all(each.age_seconds <= bound for each in kept.values()):
            return {key: each.balance for key, each in kept.items()}
        fetcher = by_place.get(place)
        live = NotKnown("nobody reads its balances") if fetcher is None else await _known(fetcher.fetch, patience)
        if not isinstance(live, NotKnown):
            return {
                Holding(each.venue_key, each.account, each.asset): Balance(each.free, each.request_ended_at, live=True)
                for each in live
                if each.wallet == paying[place]
            }
        if not kept:
            return live
        return {key: replace(each.balance, problem=f"what it is now is {live}") for key, each in kept.items()}

    return dict(zip(places, await asyncio.gather(*map(at, places)), strict=True))


async def _fees(
    engine: Engine,
    request: LockedRequest,
    nodes: Sequence[ReviewedNode],
    rows: Mapping[str, NodeRow] | NotKnown,
    patience: float,
) -> dict[str, FeeEstimate | NotKnown]:
    asked = [node for node in nodes if node.to_come]

    async def of(node: ReviewedNode) -> FeeEstimate | NotKnown:
        if node.executor is None or node.executor not in engine.executors:
            return NotKnown(f"no executor is registered as {node.executor}")
        executor = engine.executors.resolve(node.executor)
        if not isinstance(executor, EstimatesFees):
            return NotKnown(f"{node.executor} gives no estimates", expected=True)
        if node.open_values:
            waits = ", ".join(f"{name} = {value}" for name, value in node.open_values.items())
            return NotKnown(f"it depends on what is not there yet: {waits}", expected=True)
        if isinstance(rows, NotKnown):
            return rows
        context = _context(request, node, rows[node.key])
        return await _known(lambda: executor.estimate_fee(context), patience)

    return dict(zip([node.key for node in asked], await asyncio.gather(*map(of, asked)), strict=True))


def _context(request: LockedRequest, node: ReviewedNode, row: NodeRow) -> ExecutionContext:
    """A work order to be judged, never done."""
    plan = request.stored.plan
    return ExecutionContext(
        request_id=request.request_id,
        request_node_id=row.node_id,
        compiled_plan_hash=request.compiled_plan_hash,
        template_key=plan.template_key,
        template_version=request.stored.version,
        node_key=node.key,
        node_kind=node.node.node_kind,
        action_type=node.node.action_type,
        attempt_no=1,
        intent=request.intent,
        input_params=request.input_params,
        resolved_bindings=request.resolved_bindings,
        risk_controls=plan.risk_document,
        node_config=dict(node.config),
        provider_context={},
        timeout_policy=node.node.timeout_policy,
        idempotency_key=idempotency_key(row.node_id, 1),
    )


async def _known(ask: Callable[[], Awaitable[T]], patience: float) -> T | NotKnown:
    """The answer, or why there is none: one that cannot be read hides no other."""
    try:
        return await answer_within(patience, ask)
    except TimeoutError:
        return NotKnown(f"no answer within {patience:g} s, twice")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown in its place
        first_line = (str(error) or type(error).__name__).splitlines()[0]
        return NotKnown(redact_text(first_line))
