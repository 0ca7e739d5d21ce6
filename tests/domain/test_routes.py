"""A route is held to its template: what is wrong is named by the route's own field."""

from __future__ import annotations

import pytest

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import ParameterSpec, ParameterType, Plan
from qtg_dagster.domain.routes import Endpoint, EndpointKind, RouteEntry, check_route, find_route
from tests.engine.plans import AMOUNT, node, plan_of

HERE = Endpoint(EndpointKind.ACCOUNT, "treasury", ("0xHere",))
THERE = Endpoint(EndpointKind.VENUE, "binance", ("0xThere", "0xOther"))
ROUTE = RouteEntry.model_validate({"from": "treasury", "to": "binance", "assets": ["USDC"], "template_key": "sample"})
SEND = {"account": "treasury", "asset": "USDC", "amount": "$param:amount", "destination": "0xthere"}


def template(*parameters: ParameterSpec, **config: object) -> Plan:
    return plan_of(node("send", config={**SEND, **config}), parameters=(AMOUNT, *parameters))


def check(plan: Plan, asset: str = "USDC", **route: object) -> None:
    check_route("way", ROUTE.model_copy(update=route), plan, HERE, THERE, asset)


def test_a_route_that_fits_passes_whichever_of_the_addresses_it_is() -> None:
    check(template())
    check(template(destination="0xOTHER"))


WHERE = ParameterSpec(name="where", type=ParameterType.ADDRESS)


@pytest.mark.parametrize(
    ("plan", "route", "field"),
    [
        (template(), {"amount": "sum"}, r"routes\.way\.amount: template sample has no parameter 'sum'"),
        (template(), {"parameters": {"note": "x"}}, r"routes\.way\.parameters\.note"),
        (template(WHERE), {}, r"routes\.way\.parameters: template sample also wants where"),
        (template(WHERE), {"amount": "where", "parameters": {"amount": "1"}}, r"way\.amount: .* of type address"),
        (template(account="other"), {}, r"routes\.way\.from: .* takes from account:other"),
        (template(venue="kraken"), {}, r"routes\.way\.from: .* takes from venue:kraken"),
        (template(destination="0xelsewhere"), {}, r"routes\.way\.to: .* brings it to 0xelsewhere"),
        (
            template(WHERE, destination="$param:where"),
            {"parameters": {"where": "0xelsewhere"}},
            r"routes\.way\.to: .* brings it to 0xelsewhere",
        ),
    ],
)  # fmt: skip
def test_what_contradicts_the_template_is_named_by_its_field(plan: Plan, route: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        check(plan, **route)


def test_an_amount_of_another_asset_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"routes\.way\.amount: .* is an amount of USDC, and the transfer is of ETH"):
        check(template(), "ETH")


def test_the_last_side_effect_in_order_is_where_it_ends_whatever_the_order_of_writing() -> None:
    first, last = node("first", config={**SEND, "destination": "0xbetween"}), node("last", config=SEND)
    check(plan_of(last, first, edges=(("first", "last"),)))
    with pytest.raises(InvalidInput, match="0xbetween"):
        check(plan_of(first, last, edges=(("last", "first"),)))


def test_a_destination_that_only_a_run_finds_out_is_not_guessed() -> None:
    first = node("first", config=SEND)
    check(plan_of(first, node("last", config={"destination": "$ref:first.address"}), edges=(("first", "last"),)))


def test_without_a_route_those_there_are_are_named() -> None:
    ends = {"way": (HERE, THERE)}
    assert find_route({"way": ROUTE}, ends, HERE, THERE, "USDC") == ("way", ROUTE)
    for source, destination, asset in ((THERE, HERE, "USDC"), (HERE, THERE, "ETH")):
        with pytest.raises(InvalidInput, match="USDC account:treasury -> venue:binance"):
            find_route({"way": ROUTE}, ends, source, destination, asset)
    with pytest.raises(InvalidInput, match="none yet"):
        find_route({}, {}, HERE, THERE, "USDC")
