"""Routes: which template brings which asset from where to where, as the inventory has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from graphlib import TopologicalSorter
from typing import Any

from pydantic import ConfigDict, Field

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Frozen, NodeKey, ParameterType, Plan, split_reference


class EndpointKind(StrEnum):
    """What a transfer begins or ends at."""

    VENUE = "venue"
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A venue account or an own on-chain account, by its inventory key; `addresses` are the ones it receives at."""

    kind: EndpointKind
    key: str
    addresses: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"


class RouteEntry(Frozen):
    """One way from one endpoint to another: which template, and how the transfer becomes its parameters."""

    model_config = ConfigDict(populate_by_name=True)

    source: str = Field(alias="from", description="a venue or an account of the inventory")
    destination: str = Field(alias="to", description="a venue or an account of the inventory")
    assets: tuple[str, ...] = Field(min_length=1, description="what it carries, by inventory key")
    template_key: NodeKey
    template_version: int | None = Field(default=None, ge=1, description="null = the newest")
    amount: NodeKey = Field(default="amount", description="the template's parameter that takes the amount")
    parameters: dict[NodeKey, str] = Field(default_factory=dict, description="other parameters, the same every time")
    bindings: dict[str, str] = Field(default_factory=dict, description="signer role -> signer key")
    approval_rounds: int = Field(
        default=1, ge=1, le=100, description="how often approval is asked for before a person must decide"
    )
    approval_ttl_seconds: int | None = Field(
        default=None, ge=1, le=30 * 86400, description="how long each time; null = MG_APPROVAL_TTL_SECONDS"
    )


def find_route(
    routes: Mapping[str, RouteEntry],
    ends: Mapping[str, tuple[Endpoint, Endpoint]],
    source: Endpoint,
    destination: Endpoint,
    asset: str,
) -> tuple[str, RouteEntry]:
    """The route of an asset between two endpoints, with its key; raises `InvalidInput` naming those there are.

    `ends` is route key -> where it begins and ends.
    """
    for key, route in routes.items():
        if ends[key] == (source, destination) and asset in route.assets:
            return key, route
    known = "; ".join(f"{','.join(r.assets)} {ends[key][0]} -> {ends[key][1]}" for key, r in routes.items())
    raise InvalidInput(
        "route",
        f"no route carries {asset} from {source} to {destination}",
        f"Add one to the inventory's routes, or use one of: {known or 'none yet'}.",
    )


def check_route(key: str, route: RouteEntry, plan: Plan, source: Endpoint, destination: Endpoint, asset: str) -> None:
    """Raise `InvalidInput` naming the route's field that its template, as it is stored, contradicts."""
    declared = {parameter.name: parameter for parameter in plan.parameters}
    for field, name in (("amount", route.amount), *((f"parameters.{each}", each) for each in route.parameters)):
        if name not in declared:
            raise InvalidInput(
                f"routes.{key}.{field}",
                f"template {plan.template_key} has no parameter {name!r}",
                f"Use {', '.join(declared) or 'a template with one'}.",
            )
    amount = declared[route.amount]
    if amount.type is not ParameterType.AMOUNT or amount.asset != asset:
        is_now = f"an amount of {amount.asset}" if amount.type is ParameterType.AMOUNT else f"of type {amount.type}"
        raise InvalidInput(
            f"routes.{key}.amount",
            f"parameter {route.amount!r} of template {plan.template_key} is {is_now}, and the transfer is of {asset}",
            "Name a parameter that takes an amount of that asset.",
        )
    missing = [name for name in declared if name != route.amount and name not in route.parameters]
    if missing:
        raise InvalidInput(
            f"routes.{key}.parameters",
            f"template {plan.template_key} also wants {', '.join(missing)}",
            "Give each a value in the route.",
        )
    _check_ends(key, route, plan, source, destination)


def _check_ends(key: str, route: RouteEntry, plan: Plan, source: Endpoint, destination: Endpoint) -> None:
    """A template that says where it takes from or brings to must say what the route says."""
    order = TopologicalSorter(plan.predecessors()).static_order()
    configs = [_filled(node.config, route.parameters) for node in map(plan.node, order) if node.has_side_effect]
    taken = next(
        (Endpoint(kind, str(config[kind])) for config in configs for kind in EndpointKind if kind in config), None
    )
    if taken is not None and taken.key and (taken.kind, taken.key) != (source.kind, source.key):
        raise InvalidInput(
            f"routes.{key}.from",
            f"template {plan.template_key} takes from {taken}, not from {source}",
            "Name the template that takes from there.",
        )
    brought = next((str(config["destination"]) for config in reversed(configs) if "destination" in config), "")
    if brought and brought.lower() not in {address.lower() for address in destination.addresses}:
        own = ", ".join(destination.addresses) or "no address in the inventory"
        raise InvalidInput(
            f"routes.{key}.to",
            f"template {plan.template_key} brings it to {brought}, and {destination} receives at {own}",
            "Name the template that brings it there.",
        )


def _filled(config: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """What a config says before anything has run; what only then is known is empty."""
    known: dict[str, Any] = {}
    for name, value in config.items():
        kind, target = split_reference(value)
        known[name] = parameters.get(target, "") if kind == "param" else "" if kind else value
    return known
