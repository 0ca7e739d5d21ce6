"""The scheduled verification of the audit trail: what is new each time, all of it now and then, and a signed head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from qtg_dagster.domain.audit_chain import START, Mark
from qtg_dagster.domain.audit_checkpoint import Checkpoint
from qtg_dagster.domain.errors import ConfigurationError, Conflict
from qtg_dagster.settings import Settings
from qtg_dagster.store.audit_verifications import (
    Verification,
    last_good_verification,
    last_verification,
    record_verification,
    verified_completely,
)
from qtg_dagster.store.database import Database
from qtg_dagster.upkeep.audit_checkpoints import checkpoint_place, read_marks, write_checkpoint
from qtg_dagster.upkeep.audit_trail import TrailReport, verify_trail

AUDIT_VERIFICATION = "audit_verification"
_SLACK_SECONDS = 60

log = structlog.get_logger("qtg.upkeep")


@dataclass(frozen=True, slots=True)
class VerifiedTrail:
    """A verification that is on record, and the checkpoint that was written behind it."""

    report: TrailReport
    checkpoint: Path | None


async def verify_and_record(database: Database, settings: Settings, *, complete: bool = False) -> VerifiedTrail:
    """Verify what was promoted since the last good verification, or the whole chain when that is due or asked for.

    What was found is on record before anything else happens. A head is signed only when the chain up to it is right.
    Raises `ConfigurationError` for a checkpoint key or file that cannot be used, and `Conflict` when a checkpoint of
    the same row stands for another one.
    """
    network_class, place = settings.network_class, checkpoint_place(settings)
    last, good = await last_verification(database, network_class), await last_good_verification(database, network_class)
    whole = complete or last is None or last.problem is not None or not await _recently_whole(database, settings)
    behind = START if whole or last is None else last.head
    signed, wrong = (
        read_marks([place.folder], network_class, [place.public_key], least=behind.sequence)
        if place is not None
        else ([], [])
    )
    report = await verify_trail(
        database,
        network_class,
        behind=behind,
        marks=[*_marks(good), *signed],
        more=wrong,
        every_entry=not whole and last is not None and last.recent,
    )
    at = await record_verification(
        database,
        network_class,
        complete=report.complete,
        rows_read=report.rows,
        head=report.head,
        problem=report.problem,
    )
    if not report.right:
        log.error("the audit trail is not right", problem=report.problem, breaks=report.many_breaks)
        return VerifiedTrail(report, None)
    if place is None or report.head == START:
        return VerifiedTrail(report, None)
    return VerifiedTrail(report, write_checkpoint(place, Checkpoint.of(network_class, report.head, at)))


async def verify_against(
    database: Database, settings: Settings, checkpoints: Sequence[Path], public_keys: Sequence[str]
) -> TrailReport:
    """Verify the whole chain against these checkpoints, and the last good verification; nothing is written.

    Raises `ConfigurationError` for a file that is no checkpoint.
    """
    marks, wrong = read_marks(checkpoints, settings.network_class, public_keys)
    good = await last_good_verification(database, settings.network_class)
    return await verify_trail(database, settings.network_class, marks=[*_marks(good), *marks], more=wrong)


async def sign_head(database: Database, settings: Settings) -> VerifiedTrail:
    """A checkpoint on somebody's word.

    Raises `ConfigurationError` without a place or key, `Conflict` when the trail is not right.
    """
    if checkpoint_place(settings) is None:
        raise ConfigurationError("MG_AUDIT_CHECKPOINT_FOLDER and MG_AUDIT_CHECKPOINT_KEY: set both to sign checkpoints")
    verified = await verify_and_record(database, settings)
    if not verified.report.right:
        raise Conflict(f"nothing was signed, the audit trail is not right: {verified.report.problem}")
    return verified


def _marks(good: Verification | None) -> list[Mark]:
    if good is None or good.head == START:
        return []
    return [Mark(good.head, f"the verification of {good.verified_at:%Y-%m-%d %H:%M:%S} UTC")]


async def _recently_whole(database: Database, settings: Settings) -> bool:
    seconds = max(0, settings.audit_full_verification_interval_seconds - _SLACK_SECONDS)
    return await verified_completely(database, settings.network_class, within_seconds=seconds)
