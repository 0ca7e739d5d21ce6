"""What a node's reply to a broadcast means, by its words: codes differ between nodes, and silence proves nothing."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What is known after bytes were handed over."""

    ACCEPTED = "ACCEPTED"  # the node has exactly these bytes
    NONCE_TOO_LOW = "NONCE_TOO_LOW"  # mined already: ours, or somebody else's under the same nonce
    UNDERPRICED = "REPLACEMENT_UNDERPRICED"  # another transaction with this nonce pends; nothing is consumed
    NOT_NOW = "NOT_NOW"  # refused in the present state; the same bytes may be taken later
    NEVER = "NEVER_VALID"  # no state of this chain takes these bytes
    UNKNOWN = "UNKNOWN"  # words not in the tables


#: The node has this very transaction: geth, erigon, nethermind, besu, anvil, hardhat, parity.
_HAVE_IT = ("already known", "already imported", "known transaction", "same hash was already imported")
_NONCE_TOO_LOW = ("nonce too low", "nonce is too low", "invalid nonce; got", "nonce has already been used")
_UNDERPRICED = ("replacement transaction underpriced", "replacement fee too low", "could not replace existing tx")
#: Consensus rules, the same in every block to come. Words about damaged bytes are not among them: the bytes were
#: checked before they left, so such a reply is about something else.
_NEVER = ("invalid chain id", "intrinsic gas too low")
_NOT_NOW = (
    "insufficient funds",
    "insufficient balance",
    "less than block base fee",
    "fee too low",
    "transaction underpriced",
    "nonce too high",
    "txpool is full",
    "transaction pool is full",
    "exceeds block gas limit",
    "account limit exceeded",
    "in-flight transaction limit",
)


def verdict_of_error(message: str) -> Verdict:
    """Sort a node's error text. Texts that are in no table are UNKNOWN, never a refusal."""
    text = message.lower()
    for words, verdict in (
        (_HAVE_IT, Verdict.ACCEPTED),
        (_NONCE_TOO_LOW, Verdict.NONCE_TOO_LOW),
        (_UNDERPRICED, Verdict.UNDERPRICED),
        (_NEVER, Verdict.NEVER),
        (_NOT_NOW, Verdict.NOT_NOW),
    ):
        if any(word in text for word in words):
            return verdict
    return Verdict.UNKNOWN


def verdict_of_hash(returned: str, expected: str) -> Verdict:
    """Sort a reply without error: only our own hash says that our bytes were taken."""
    return Verdict.ACCEPTED if returned.lower() == expected.lower() else Verdict.UNKNOWN
