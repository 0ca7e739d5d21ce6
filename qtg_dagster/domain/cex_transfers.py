"""Transfers on the record of a venue: what tells one from another, what counts as news, and when a day is done. Pure.

Nothing here overwrites an end: a venue that shows another state than the final one on our record contradicts itself,
and that is a person's to settle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.canonical import digest

#: The worker's name, of the runtime reference.
CEX_TRANSFER_INGEST = "cex_transfer_ingest"


class TransferKind(StrEnum):
    """Which of a venue's two records a transfer stands on."""

    WITHDRAWAL = "withdrawal"
    DEPOSIT = "deposit"


class TransferStatus(StrEnum):
    """What a venue's status means. One that the adapter does not know is PENDING."""

    PENDING = "PENDING"
    DONE = "DONE"
    LOCKED = "LOCKED"
    HELD = "HELD"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_final(self) -> bool:
        return self in FINAL_STATUSES


FINAL_STATUSES = frozenset({TransferStatus.DONE, TransferStatus.FAILED, TransferStatus.CANCELLED})
#: Ends in which no money has moved.
NOTHING_MOVED = frozenset({TransferStatus.FAILED, TransferStatus.CANCELLED})


class Change(StrEnum):
    """What an event tells of a transfer."""

    FIRST_SEEN = "first_seen"
    STATUS = "status"
    TX_ID = "tx_id"
    AMOUNT = "amount"
    CONFIRMATIONS = "confirmations"
    DISPUTED = "disputed"  # the venue shows another state than the final one on our record
    AGREES_AGAIN = "agrees_again"  # and now the one on our record again
    SETTLED = "settled"  # a person decided which of the two stands


class MatchedBy(StrEnum):
    """What binds a transfer to a node of ours."""

    WITHDRAWAL_ID = "withdrawal_id"
    CLIENT_ID = "client_id"
    DEPOSIT_ID = "deposit_id"
    TX_ID = "tx_id"


@dataclass(frozen=True, slots=True)
class Facts:
    """What an event is about: any of these changing is news."""

    status: TransferStatus
    raw_status: str
    tx_id: str | None
    amount: Decimal
    fee: Decimal
    confirmations: str | None

    def document(self) -> dict[str, str | None]:
        """For the event's row; amounts as plain text."""
        return {
            "status": self.status.value,
            "raw_status": self.raw_status,
            "tx_id": self.tx_id,
            "amount": plain_decimal(self.amount),
            "fee": plain_decimal(self.fee),
            "confirmations": self.confirmations,
        }


@dataclass(frozen=True)
class SeenTransfer:
    """A row as the venue shows it now. `row_key` is what tells it from all others of its kind on the account.

    `raw` is the venue's own row, without credentials; it may hold no float.
    """

    kind: TransferKind
    row_key: str
    coin: str
    network: str | None
    address: str | None
    memo: str | None
    client_id: str | None
    internal: bool
    status_listed: bool
    occurred_at: datetime
    facts: Facts
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def identity(self) -> tuple[TransferKind, str]:
        return self.kind, self.row_key

    @cached_property
    def content_hash(self) -> str:
        """Of everything that is stored of it, the venue's own row included."""
        told = {
            "kind": self.kind.value,
            "row_key": self.row_key,
            "coin": self.coin,
            "network": self.network,
            "address": self.address,
            "memo": self.memo,
            "client_id": self.client_id,
            "internal": self.internal,
            "status_listed": self.status_listed,
            "occurred_at": self.occurred_at.astimezone(UTC).isoformat(),
            "facts": self.facts.document(),
            "raw": dict(self.raw),
        }
        return digest("qtg.cex.transfer.v1", told)


@dataclass(frozen=True, slots=True)
class StoredTransfer:
    """The same as it stands on our record, as far as news are judged by it.

    `disputed` is a state that contradicts the final one; `disputed_hash` is of the row that said so last, and None once
    the venue agrees again.
    """

    id: int
    facts: Facts
    content_hash: str
    disputed: TransferStatus | None = None
    disputed_hash: str | None = None


class Effect(StrEnum):
    """What a sighting does to our record."""

    NOTHING = "nothing"
    INSERT = "insert"
    UPDATE = "update"  # the venue's row stands as our record from now on
    DISPUTE = "dispute"  # our record stands, and the contradiction beside it
    UNDISPUTE = "undispute"  # a state that was not final contradicted, and does so no longer
    AGREE = "agree"  # the venue agrees again with what it had contradicted by another end: a person still settles it


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be written: the effect on the row, and what the event tells, if there is one.

    `disputed` is the state that contradicts ours from now on; another end stays one until a person settles it.
    """

    effect: Effect
    changes: tuple[Change, ...] = ()
    disputed: TransferStatus | None = None


def judge(stored: StoredTransfer | None, seen: SeenTransfer) -> Verdict:
    """What a sighting means. The same sighting a second time means nothing."""
    if stored is None:
        return Verdict(Effect.INSERT, (Change.FIRST_SEEN,))
    if stored.facts.status.is_final and seen.facts.status is not stored.facts.status:
        if stored.disputed_hash == seen.content_hash:
            return Verdict(Effect.NOTHING)
        return Verdict(Effect.DISPUTE, (Change.DISPUTED,), _worse(stored.disputed, seen.facts.status))
    if stored.disputed is not None and not stored.disputed.is_final:
        return Verdict(Effect.UNDISPUTE, (Change.AGREES_AGAIN, *news(stored.facts, seen.facts)))
    if stored.disputed_hash is not None:
        return Verdict(Effect.AGREE, (Change.AGREES_AGAIN, *news(stored.facts, seen.facts)), stored.disputed)
    if stored.content_hash == seen.content_hash:
        return Verdict(Effect.NOTHING)
    return Verdict(Effect.UPDATE, news(stored.facts, seen.facts), stored.disputed)


def _worse(disputed: TransferStatus | None, seen: TransferStatus) -> TransferStatus:
    return disputed if disputed is not None and disputed.is_final and not seen.is_final else seen


def news(before: Facts, after: Facts) -> tuple[Change, ...]:
    """What of the facts changed; amounts by value, as venues write zeros as they like."""
    pairs = (
        (Change.STATUS, (before.status, before.raw_status), (after.status, after.raw_status)),
        (Change.TX_ID, before.tx_id, after.tx_id),
        (Change.AMOUNT, (before.amount, before.fee), (after.amount, after.fee)),
        (Change.CONFIRMATIONS, before.confirmations, after.confirmations),
    )
    return tuple(change for change, old, new in pairs if old != new)
