"""Balances at all ends before and after, and whether the difference is exactly what the movements say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.balances import BalanceFetcher
from qtg_dagster.inventory import Inventory
from qtg_dagster.store.views import MovementView

#: (venue or chain, asset key) -> everything held there, free and locked.
Holdings = Mapping[tuple[str, str], Amount]


@dataclass(frozen=True, slots=True)
class Line:
    """One place and asset: what was, what is, and what should be."""

    place: str
    asset: str
    before: Amount
    after: Amount
    expected_change: Amount

    @property
    def change(self) -> Amount:
        return self.after - self.before

    @property
    def agrees(self) -> bool:
        return self.change == self.expected_change


async def read_holdings(fetchers: Iterable[BalanceFetcher], inventory: Inventory) -> dict[tuple[str, str], Amount]:
    """Sum free and locked of every account and wallet, by place and asset."""
    found: dict[tuple[str, str], Amount] = {}
    for fetcher in fetchers:
        for reading in await fetcher.fetch():
            asset = inventory.asset(reading.asset)
            held = Amount.parse(asset, reading.free) + Amount.parse(asset, reading.locked)
            key = (reading.venue_key, reading.asset)
            found[key] = found[key] + held if key in found else held
    return found


def expected_changes(movements: Iterable[MovementView], inventory: Inventory) -> dict[tuple[str, str], Amount]:
    """What the recorded references of the movements' nodes say has moved, fees and gas included."""
    changes: defaultdict[tuple[str, str], int] = defaultdict(int)
    usdc = inventory.asset("USDC")
    chain = inventory.account("treasury").chain
    native_key = inventory.chain(chain).native_asset

    def units(refs: Mapping[str, object], name: str, asset_key: str = "USDC") -> int:
        return Amount.parse(inventory.asset(asset_key), str(refs[name]), field=name).base_units

    for movement in movements:
        sent = Amount.parse(usdc, str(movement.intent["amount"])).base_units
        for node in movement.nodes:
            refs = node.provider_refs
            match node.node_key:
                case "withdraw":
                    changes["venue_a", "USDC"] -= sent
                case "receive":
                    changes[chain, "USDC"] += units(refs, "received_amount")
                    sent = units(refs, "received_amount")
                case "transfer":
                    changes[chain, "USDC"] -= sent
                    changes["venue_b", "USDC"] += sent
                    changes[chain, native_key] -= units(refs, "gas_fee", native_key)
    return {key: Amount(inventory.asset(key[1]), change) for key, change in changes.items()}


def compare(
    before: Holdings, after: Holdings, movements: Iterable[MovementView], inventory: Inventory
) -> tuple[Line, ...]:
    """A line for every place and asset held before or after."""
    expected = expected_changes(movements, inventory)
    lines = []
    for place, asset_key in sorted(before.keys() | after.keys()):
        asset = inventory.asset(asset_key)
        nothing = Amount(asset, 0)
        key = (place, asset_key)
        was, now = before.get(key, nothing), after.get(key, nothing)
        lines.append(Line(place, asset_key, was, now, expected.get(key, nothing)))
    return tuple(lines)


def fees_paid(movements: Iterable[MovementView], inventory: Inventory) -> Amount:
    """What the exchanges kept: asked for less received, over all withdrawals."""
    usdc = inventory.asset("USDC")
    total = Amount(usdc, 0)
    for movement in movements:
        for node in movement.nodes:
            if node.node_key == "withdraw_observe":
                total += Amount.parse(usdc, str(node.provider_refs["withdrawal_fee"]))
    return total
