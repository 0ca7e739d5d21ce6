"""From what a transfer is to bring about to the movement that its route names, checked against the stored template."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.errors import InvalidInput, NotFound
from qtg_dagster.domain.requests import StoredPlan
from qtg_dagster.domain.routes import RouteEntry, check_route
from qtg_dagster.engine.compiling import compile_order
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Errand:
    """How much of what is to go from where to where; endpoints as `venue:key` and `account:key`."""

    source: str
    destination: str
    asset: str
    amount: str
    decimals: int
    requested_by: str
    reason: str


async def plan_errand(
    engine: Engine, tx: Transaction, errand: Errand, *, idempotency_key: str | None = None
) -> tuple[str, MovementOrder]:
    """The key of an errand's route, and the movement to order: of the very template version that was looked at.

    Raises `InvalidInput` when no route carries it, or when the route's template, as it is stored, does not fit.
    """
    inventory = engine.inventory
    source = inventory.endpoint(errand.source, field="source")
    destination = inventory.endpoint(errand.destination, field="destination")
    decimals = inventory.asset(errand.asset).decimals
    if decimals != errand.decimals:
        raise InvalidInput(
            f"assets.{errand.asset}.decimals",
            f"is {decimals} now, and {errand.decimals} when the transfer was requested",
            "Cancel it and request a new one.",
        )
    key, route = inventory.route(source, destination, errand.asset)
    stored = await _template(engine, tx, key, route)
    check_route(key, route, stored.plan, source, destination, errand.asset)
    order = MovementOrder(
        template_key=route.template_key,
        template_version=stored.version,
        parameters={**route.parameters, route.amount: errand.amount},
        bindings=route.bindings,
        requested_by=errand.requested_by,
        reason=errand.reason,
        idempotency_key=idempotency_key,
        approval_ttl_seconds=route.approval_ttl_seconds,
    )
    try:
        compile_order(engine, order, stored)
    except NotFound as missing:  # an executor that nobody has registered
        raise InvalidInput(f"routes.{key}.template_key", str(missing), "Register it, or name another one.") from None
    return key, order


async def _template(engine: Engine, tx: Transaction, key: str, route: RouteEntry) -> StoredPlan:
    async with engine.store.deciding(tx) as decisions:
        try:
            return await decisions.require_plan(route.template_key, route.template_version)
        except InvalidInput as missing:
            raise InvalidInput(f"routes.{key}.template_key", missing.problem, missing.fix) from None
