"""Who can be reached: executors and signers."""

from collections.abc import Sequence

import dagster as dg

from assets.keys import EXECUTORS, GROUP
from assets.windows import serve
from qtg_dagster.domain.signer_identity import Posture, SignerIdentity
from qtg_dagster.jobs.pictures import table
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.store.signer_identity import read_roster
from qtg_dagster.upkeep.cycles import PassResult
from qtg_dagster.upkeep.health import HealthPass, refresh_health
from qtg_dagster.upkeep.workers import EXECUTOR_HEALTH
from resources import PlatformResource

NONE_DOWN = "none_down"
SIGNERS_AS_ENROLLED = "signers_as_enrolled"


@dg.asset(
    key=EXECUTORS,
    group_name=GROUP,
    kinds={"postgres"},
    description="Health of every registered executor and signer, kept in qtg.executor_registry and signer_registry.",
    check_specs=[
        dg.AssetCheckSpec(NONE_DOWN, asset=EXECUTORS, description="Every executor and signer is reachable."),
        dg.AssetCheckSpec(
            SIGNERS_AS_ENROLLED, asset=EXECUTORS, description="No signer has another address than was enrolled."
        ),
    ],
)
async def executors(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """A movement cannot be approved while something it needs is down."""
    newest: list[HealthPass] = []
    with shown_in_the_ui():
        async with platform.open() as parts:

            async def ask() -> PassResult:
                found = await refresh_health(parts.engine)
                newest[:] = [found]
                down = {seen.key: seen.detail for seen in found.down()}
                return PassResult(len(found.executors) + len(found.signers), {"down": down} if down else {})

            served = await serve(
                context, parts.engine, EXECUTOR_HEALTH, parts.settings.executor_health_interval_seconds, ask
            )
            async with parts.database.transaction() as transaction:
                roster = await read_roster(transaction, parts.settings.network_class)
    return _result(newest[0] if newest else HealthPass((), ()), served, roster)


def _result(found: HealthPass, served: Sequence[str], roster: Sequence[SignerIdentity]) -> dg.MaterializeResult:  # type: ignore[type-arg]
    rows = [
        (seen.key, seen.state.value, f"{seen.latency_ms:.0f}", seen.signer_address)
        for seen in (*found.executors, *found.signers)
    ]
    down = found.down()
    verdict = dg.AssetCheckResult(
        check_name=NONE_DOWN,
        passed=not down,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={seen.key: seen.detail for seen in down} or {"asked": len(rows)},
    )
    return dg.MaterializeResult(
        metadata={
            "windows": ", ".join(served) or "served by another run",
            "health": dg.MetadataValue.md(table(("key", "health", "ms", "address"), rows)),
            "what they say": dg.MetadataValue.json(
                {seen.key: seen.detail for seen in (*found.executors, *found.signers)}
            ),
            "down": len(down),
        },
        check_results=[verdict, _identities([each for each in roster if each.registered])],
    )


def _identities(signers: Sequence[SignerIdentity]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=SIGNERS_AS_ENROLLED,
        passed=not any(each.posture is Posture.DIFFERS for each in signers),
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={each.signer_key: each.told() for each in signers} or {"signers": "none"},
    )


executor_health = dg.define_asset_job(
    "executor_health",
    selection=dg.AssetSelection.assets(EXECUTORS),
    executor_def=dg.in_process_executor,
    description="Ask every executor and signer whether it can be reached.",
)
