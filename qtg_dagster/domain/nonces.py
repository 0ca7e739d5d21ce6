"""How a nonce stands: decided from what is recorded and what its chain says, never from one of them alone.

A sender's transactions are executed in the order of their nonces. So a nonce that is held by somebody who will not use
it holds up everything that the sender signs above it, until another transaction uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from qtg_dagster.domain.journal import AttemptOutcome
from qtg_dagster.domain.states import NodeState


class ReservationState(StrEnum):
    """What the nonce ledger says of a reservation."""

    RESERVED = "RESERVED"  # given to an attempt that has no intent yet
    BOUND = "BOUND"  # belongs to the action of a recorded intent
    FILLING = "FILLING"  # taken from its holder: a transfer of nothing to oneself is to use it
    CLOSED = "CLOSED"  # used on its chain for good, by whom the row says; never given out again
    RELEASED = "RELEASED"  # nothing was ever signed under it: it may be given out again


class Standing(StrEnum):
    """What can be said of a nonce now."""

    FREE = "FREE"  # nobody holds it
    HELD = "HELD"  # its holder may still use it
    USED = "USED"  # a final block has it
    DEAD = "DEAD"  # nobody will use it, and all above it waits
    UNCERTAIN = "UNCERTAIN"  # none of the others can be proven


class UsedBy(StrEnum):
    """Whose transaction used a nonce in the end."""

    FILLER = "filler"
    ORIGINAL = "original"
    ANOTHER = "another"


class FillKind(StrEnum):
    """Why a nonce is filled."""

    DEAD = "dead"  # its holder has ended and will not use it
    CANCEL = "cancel"  # its holder is in flight, and goes on being looked at


class FillerState(StrEnum):
    """A filler's life."""

    ORDERED = "ORDERED"  # decided; the nonce is taken from its holder, nothing is signed
    PREPARED = "PREPARED"  # its bytes are stored, and may have been handed to a node
    SENT = "SENT"  # a node has answered about it
    MINED = "MINED"  # a final block has it
    SUPERSEDED = "SUPERSEDED"  # a final block has another transaction under its nonce


OPEN_FILLER_STATES = frozenset({FillerState.ORDERED, FillerState.PREPARED, FillerState.SENT})


@dataclass(frozen=True, slots=True)
class Holder:
    """What is recorded of a nonce: its reservation, the node that it was made for, and the attempt that has it."""

    reservation: ReservationState | None
    signed: bool  # a signer's journal has an effect under it
    node_state: NodeState
    claimed: bool  # a live runner works on the node
    recorded: bool  # the attempt that holds the nonce has an intent
    outcome: AttemptOutcome | None


@dataclass(frozen=True, slots=True)
class ChainView:
    """What all endpoints of a chain say of one nonce of a sender; there is none when one of them did not answer."""

    latest: int  # the sender's transactions in the latest block: the highest that any endpoint says
    pending: int  # the same with what waits in a pool
    known: bool  # a node knows a transaction of ours under this nonce
    taker: str | None = None  # hash of the transaction that a final block has under it


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a nonce stands, why, what to do, and whether it may be filled.

    `fill` says that it may as it is; `cancel` that it may by an operator who wants what is under way called off.
    """

    standing: Standing
    why: str
    to_do: str
    fill: FillKind | None = None
    cancel: FillKind | None = None


_IN_FLIGHT = frozenset({NodeState.SUBMITTED, NodeState.OBSERVING, NodeState.UNKNOWN})
_ENDED = frozenset({NodeState.FAILED, NodeState.CANCELLED, NodeState.SKIPPED})
#: Outcomes after which our side never hands the bytes out again.
_NEVER_AGAIN = frozenset({AttemptOutcome.NOT_SENT, AttemptOutcome.REJECTED})
_WAIT = "wait; look again later"


def judge(nonce: int, holder: Holder | None, chain: ChainView | None) -> Judgement:
    """How `nonce` stands. DEAD needs proof from both sides; whatever is missing makes it UNCERTAIN."""
    if chain is not None and chain.taker is not None:
        return Judgement(Standing.USED, f"a final block has {chain.taker} under it", "nothing")
    if chain is not None and chain.latest > nonce:
        return Judgement(Standing.UNCERTAIN, "a block that is not final yet has a transaction under it", _WAIT)
    holds = holder is not None and (holder.signed or holder.reservation not in (None, ReservationState.RELEASED))
    if holder is None or not holds:
        return _nobodys(nonce, chain)
    return _taken(holder) or _judge_holder(nonce, holder, chain)


def _nobodys(nonce: int, chain: ChainView | None) -> Judgement:
    if chain is not None and chain.pending > nonce:
        return Judgement(Standing.UNCERTAIN, "nobody here holds it, yet a transaction under it waits in a pool", _WAIT)
    return Judgement(Standing.FREE, "nobody holds it", "nothing")


def _taken(holder: Holder) -> Judgement | None:
    if holder.reservation is ReservationState.FILLING:
        return Judgement(Standing.HELD, "it is being filled", "nothing; `qtg nonce fill` goes on where it stopped")
    if holder.reservation is ReservationState.CLOSED:
        return Judgement(Standing.UNCERTAIN, "it was used for good, and the chain does not show it now", _WAIT)
    if holder.claimed:
        return Judgement(Standing.HELD, f"its node is {holder.node_state} and is being worked on", _WAIT)
    return None


def _judge_holder(nonce: int, holder: Holder, chain: ChainView | None) -> Judgement:
    state, over = holder.node_state, holder.recorded and holder.outcome is AttemptOutcome.REJECTED
    if state in _IN_FLIGHT:
        return _in_flight(holder, chain)
    if state is NodeState.SUBMITTING:
        return Judgement(Standing.UNCERTAIN, "its node is SUBMITTING: it may be handed over at this moment", _WAIT)
    if state is NodeState.COMPLETED:
        return Judgement(Standing.UNCERTAIN, "its node is COMPLETED, and the chain does not show it", _WAIT)
    if state not in _ENDED and not over:
        return Judgement(
            Standing.HELD,
            f"its node is {state} and will use it when it is started",
            "let the node start, or cancel its movement; then it can be filled",
        )
    return _ended(nonce, holder, chain)


def _in_flight(holder: Holder, chain: ChainView | None) -> Judgement:
    standing = Standing.UNCERTAIN if holder.node_state is NodeState.UNKNOWN else Standing.HELD
    may = FillKind.CANCEL if chain is not None and holder.reservation is ReservationState.BOUND else None
    return Judgement(
        standing,
        f"its node is {holder.node_state}: its transaction may be mined",
        "nothing; when it is stuck at too low a fee, `qtg nonce fill --cancel` calls it off",
        cancel=may,
    )


def _ended(nonce: int, holder: Holder, chain: ChainView | None) -> Judgement:
    if holder.recorded and holder.outcome not in _NEVER_AGAIN:
        return Judgement(
            Standing.UNCERTAIN,
            f"its node is {holder.node_state} after an attempt that is {holder.outcome or 'open'}: it may have left",
            "look at the movement",
        )
    if holder.reservation is ReservationState.BOUND and not holder.recorded:
        return Judgement(Standing.UNCERTAIN, "it is bound to an attempt that is not on record", "look at the movement")
    if chain is None:
        return Judgement(Standing.UNCERTAIN, f"its node is {holder.node_state}; the chain was not asked", _WAIT)
    if holder.reservation is ReservationState.RESERVED and not holder.signed and not holder.recorded:
        return Judgement(Standing.HELD, "it was never signed", "nothing: it is released by itself")
    if chain.known or chain.pending > nonce:
        whose = "the transaction signed for its node" if chain.known else "a transaction that is not known here"
        return Judgement(
            Standing.UNCERTAIN,
            f"its node is {holder.node_state}, yet {whose} waits in a pool under it",
            "wait until it is mined, or call it off with `qtg nonce fill --cancel`",
            cancel=FillKind.DEAD,
        )
    return Judgement(
        Standing.DEAD,
        f"its node is {holder.node_state} and will not use it; all that the sender signs above it waits",
        "retry the node where its movement can go on, or `qtg nonce fill`",
        fill=FillKind.DEAD,
        cancel=FillKind.DEAD,
    )
