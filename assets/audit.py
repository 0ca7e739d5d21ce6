"""The audit trail as an asset: verified on a schedule, with the bad row by name where the check stands."""

from typing import Any

import dagster as dg
from pydantic import Field

from assets.keys import AUDIT_TRAIL, GROUP
from assets.windows import serve
from qtg_dagster.jobs.pictures import table
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.store.audit_verifications import audit_chain_problem
from qtg_dagster.upkeep.audit_trail import TrailReport
from qtg_dagster.upkeep.audit_verification import AUDIT_VERIFICATION, VerifiedTrail, verify_and_record
from qtg_dagster.upkeep.cycles import PassResult
from resources import PlatformResource

CHAIN_VERIFIES = "audit_chain_verifies"
#: So many bad rows are shown on a page; all are counted.
_SHOWN = 20


class HowMuch(dg.Config):
    """How much of the chain is read."""

    complete: bool = Field(default=False, description="from its first row, whether that is due or not")


@dg.asset(
    key=AUDIT_TRAIL,
    group_name=GROUP,
    kinds={"postgres"},
    description="Who did what, in qtg.audit_events: a hash chain, with signed checkpoints outside the database.",
    check_specs=[
        dg.AssetCheckSpec(
            CHAIN_VERIFIES, asset=AUDIT_TRAIL, description="No row of the audit chain was changed, removed or put in."
        )
    ],
)
async def audit_trail(
    context: dg.AssetExecutionContext, config: HowMuch, platform: PlatformResource
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Each scheduled window is served once; what is wrong stays so until the whole chain was found right."""
    done: list[VerifiedTrail] = []
    with shown_in_the_ui():
        async with platform.open() as parts:

            async def verify() -> PassResult:
                verified = await verify_and_record(parts.database, parts.settings, complete=config.complete)
                done[:] = [verified]
                report = verified.report
                notes = {"head": report.head.sequence, "complete": report.complete, "problem": report.problem}
                return PassResult(report.rows, notes)

            interval = parts.settings.audit_verification_interval_seconds
            served = await serve(context, parts.engine, AUDIT_VERIFICATION, interval, verify)
            problem = await audit_chain_problem(parts.database, parts.settings.network_class)
    windows = {"windows": ", ".join(served) or "served by another run"}
    shown = _shown(done[0]) if done else {}
    return dg.MaterializeResult(metadata={**windows, **shown}, check_results=[_verdict(problem, done)])


def _shown(verified: VerifiedTrail) -> dict[str, Any]:
    report = verified.report
    return {
        "rows read": report.rows,
        "from the first row": report.complete,
        "head": report.head.sequence,
        "head hash": report.head.row_hash,
        "waiting for promotion": report.waiting.entries,
        "oldest waits s": round(report.waiting.oldest_seconds, 1),
        "checkpoint": str(verified.checkpoint or "none"),
        **({"breaks": dg.MetadataValue.md(_breaks(report))} if report.breaks else {}),
    }


def _breaks(report: TrailReport) -> str:
    rows = [(one.sequence or "outbox", one.kind.value, one.detail) for one in report.breaks[:_SHOWN]]
    more = report.many_breaks - len(rows)
    return table(("sequence", "what", "detail"), rows) + (f"\n\nand {more} more" if more > 0 else "")


def _verdict(problem: str | None, done: list[VerifiedTrail]) -> dg.AssetCheckResult:
    told: dict[str, str] = {"problem": problem} if problem else {"verified": "no row is wrong"}
    for report in (each.report for each in done):
        told |= {f"bad row {place}": one.told() for place, one in enumerate(report.breaks[:_SHOWN], 1)}
    return dg.AssetCheckResult(
        check_name=CHAIN_VERIFIES, passed=problem is None, severity=dg.AssetCheckSeverity.ERROR, metadata=told
    )


verify_audit_chain = dg.define_asset_job(
    "verify_audit_chain",
    selection=dg.AssetSelection.assets(AUDIT_TRAIL),
    executor_def=dg.in_process_executor,
    description="Verify the audit chain: what is new, and all of it when that is due; sign its head.",
)
