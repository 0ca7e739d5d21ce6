"""The double-entry lines of a movement: what leaves which holding, and what proves that it has come where.

A line moves a positive amount from one account to another, so no line can be out of balance. The line of a departure
is posted with the intent; all that may follow is decided here, at that moment, and posted by the database itself in
the commits that prove it (`store/schema/ledger.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol

from pydantic import Field

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Frozen, NodeKind, Plan, PlanNode, split_reference


class EntryKind(StrEnum):
    """Why a line was posted. Each is posted at most once for an attempt."""

    DEPARTURE = "departure"  # holding -> transit: it may have left
    RETURN = "return"  # transit -> holding: it provably did not leave, or was given back
    ARRIVAL = "arrival"  # transit -> destination: it was seen there
    WITHHELD = "withheld"  # transit -> fee: the venue took it out of the amount
    SHORTFALL = "shortfall"  # transit -> fee: what left and did not arrive
    CHARGE = "charge"  # holding -> fee: the venue took it beside the amount
    GAS = "gas"  # holding -> fee: what the chain took, in its native coin


#: What an observer reports as arrived, by its action type.
ARRIVED_AMOUNT = {"destination_chain_receive_observe": "received_amount", "cex_deposit_status": "credited_amount"}
_VENUE_STATUS = "cex_withdrawal_status"
_GIVEN_BACK = ("WITHDRAWAL_FAILED", "WITHDRAWAL_CANCELLED")


Fill = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Register(Protocol):
    """What the inventory knows of assets and holdings; None for what it does not know."""

    def asset(self, key: str) -> Asset | None:
        """The asset of this key."""
        ...

    def address(self, chain: str, account: str) -> str | None:
        """The address of an account of ours on a chain."""
        ...

    def venue_at(self, chain: str, address: str) -> str | None:
        """The venue that this is our deposit address of."""
        ...

    def native(self, chain: str) -> str | None:
        """Key of a chain's native coin."""
        ...


class FollowUp(Frozen):
    """One posting that may follow a departure: when `node` has this `state`, on the terms given."""

    node: str
    state: str = "COMPLETED"
    post: EntryKind
    account: str = ""
    amount: str | None = Field(default=None, description="name of the ref that carries the amount; null = all of it")
    codes: tuple[str, ...] = Field(default=(), description="error codes that count as proof; empty = any")
    asset: str | None = None
    decimals: int | None = None


class Departure(Frozen):
    """What an attempt takes out of a holding, and what may follow. `units` is in base units, as text."""

    source: str
    asset: str
    decimals: int
    units: str
    follow_ups: tuple[FollowUp, ...] = ()


class NotPosted(Frozen):
    """Why an attempt is not in the ledger."""

    not_posted: str


def entries_of(
    plan: Plan, node: PlanNode, config: Mapping[str, Any], register: Register, filled: Fill = dict
) -> Departure | NotPosted:
    """What the ledger says of an attempt with this resolved config. Never raises: what is not known is not guessed.

    `filled` puts into a config what the movement itself says; references to other nodes stay as they are.
    """
    if not node.has_side_effect:
        return NotPosted(not_posted="moves nothing")
    key, stated = config.get("asset"), config.get("amount")
    asset = register.asset(key) if isinstance(key, str) else None
    if asset is None or not isinstance(stated, str):
        return NotPosted(not_posted="the node names no asset and amount")
    source = holding(config, register)
    if source is None:
        return NotPosted(not_posted="the node names no venue and no account of ours that it takes from")
    try:
        amount = Amount.parse(asset, stated)
    except InvalidInput as problem:
        return NotPosted(not_posted=str(problem))
    if amount.base_units <= 0:
        return NotPosted(not_posted="the amount is nothing")
    return Departure(
        source=source,
        asset=str(key),
        decimals=asset.decimals,
        units=str(amount.base_units),
        follow_ups=(
            *_venue_terms(plan, node, config),
            *_gas(node, config, register),
            *_arrivals(plan, node, config, register, filled),
        ),
    )


def followers(plan: Plan, node_key: str) -> tuple[PlanNode, ...]:
    """Observers that follow what a node did, in the order of the plan.

    They name its references, or those of another follower; one that only takes over an amount follows nothing.
    """
    names = {node_key}
    found: list[PlanNode] = []
    remaining = [node for node in plan.nodes if node.node_kind is NodeKind.OBSERVE]
    while True:
        nearer = [node for node in remaining if _follows(node, names)]
        if not nearer:
            return tuple(found)
        found += nearer
        names |= {node.node_key for node in nearer}
        remaining = [node for node in remaining if node.node_key not in names]


def _follows(node: PlanNode, names: set[str]) -> bool:
    targets = (split_reference(value) for name, value in node.config.items() if name != "amount")
    return any(kind == "ref" and target.split(".", 1)[0] in names for kind, target in targets)


def holding(config: Mapping[str, Any], register: Register) -> str | None:
    """The account that a config names as ours: a venue, or an account on a chain."""
    venue, chain, account = config.get("venue"), config.get("chain"), config.get("account")
    if isinstance(venue, str) and not split_reference(venue)[0]:
        return f"venue:{venue}"
    if isinstance(chain, str) and isinstance(account, str):
        address = register.address(chain, account)
        return on_chain(chain, address, register) if address else None
    return None


def on_chain(chain: str, address: str, register: Register) -> str:
    """The account of an address: a venue's when it is our deposit address there."""
    plain = address.lower() if address.startswith("0x") else address
    venue = register.venue_at(chain, plain)
    return f"venue:{venue}" if venue else f"chain:{chain}:{plain}"


def _venue_terms(plan: Plan, node: PlanNode, config: Mapping[str, Any]) -> list[FollowUp]:
    if not isinstance(config.get("venue"), str):
        return []
    watching = [each.node_key for each in followers(plan, node.node_key) if each.action_type == _VENUE_STATUS]
    fee = f"fee:{config['venue']}"
    return [
        *(FollowUp(node=key, state="FAILED", post=EntryKind.RETURN, codes=_GIVEN_BACK) for key in watching),
        *(FollowUp(node=key, post=EntryKind.WITHHELD, account=fee) for key in watching),
    ]


def _gas(node: PlanNode, config: Mapping[str, Any], register: Register) -> list[FollowUp]:
    chain = config.get("chain")
    if not isinstance(chain, str) or isinstance(config.get("venue"), str):
        return []
    key = register.native(chain)
    coin = register.asset(key) if key else None
    if key is None or coin is None:
        return []
    return [
        FollowUp(
            node=node.node_key,
            state=state,
            post=EntryKind.GAS,
            account=f"fee:{chain}",
            amount="gas_fee",
            asset=key,
            decimals=coin.decimals,
        )
        for state in ("COMPLETED", "FAILED")
    ]


def _arrivals(
    plan: Plan, node: PlanNode, config: Mapping[str, Any], register: Register, filled: Fill
) -> list[FollowUp]:
    """Observers of the arrival, with the amount they report; without one, the last to look proves that all came."""
    after = followers(plan, node.node_key)
    seen = []
    for each in after:
        if each.action_type not in ARRIVED_AMOUNT:
            continue
        known = filled(each.config)
        where = holding(known, register)
        if where and known.get("asset") == config.get("asset"):
            amount = ARRIVED_AMOUNT[each.action_type]
            seen.append(FollowUp(node=each.node_key, post=EntryKind.ARRIVAL, account=where, amount=amount))
    if seen:
        return seen
    chain, destination = config.get("chain"), config.get("destination")
    if not isinstance(chain, str) or not isinstance(destination, str):
        return []
    last = after[-1] if after else node
    return [FollowUp(node=last.node_key, post=EntryKind.ARRIVAL, account=on_chain(chain, destination, register))]
