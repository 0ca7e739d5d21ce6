"""Taking nodes to work on, and giving them back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg.errors import UniqueViolation

from qtg_dagster.domain.states import NodeState
from qtg_dagster.store.database import Database
from qtg_dagster.store.runners import Runner
from qtg_dagster.store.statements import as_json, native


@dataclass(frozen=True, slots=True)
class Claim:
    """One node that one runner may write to, as long as nobody claims it again."""

    node_id: str
    request_id: str
    runner_id: int
    claim_epoch: int
    node_state: NodeState


@dataclass(frozen=True, slots=True)
class RecoveryArm:
    """A share of the recovery batch: executor keys LIKE one of `lanes` and none of `other_lanes`."""

    name: str
    lanes: tuple[str, ...]
    other_lanes: tuple[str, ...] = ()


_NAMED_ARMS = (
    RecoveryArm("ccip", ("exec.ccip.%",)),
    RecoveryArm("stargate", ("exec.stargate.%",)),
    RecoveryArm("cex", ("exec.cex.%",)),
)
#: In priority order, as the runtime reference has them.
RECOVERY_ARMS = (*_NAMED_ARMS, RecoveryArm("rest", ("%",), tuple(lane for arm in _NAMED_ARMS for lane in arm.lanes)))


async def claim_ready(database: Database, runner: Runner, batch: int) -> list[Claim]:
    """Claim up to `batch` nodes to dispatch.

    Two runners that meet on one serialization key cannot both win: the unique index refuses the second, which
    then takes nothing this time and looks again.
    """
    try:
        return await _claim(database, "claim_ready", runner, batch=batch)
    except UniqueViolation:
        return []


async def claim_due_observations(database: Database, runner: Runner, batch: int) -> list[Claim]:
    """Claim up to `batch` nodes whose next look is due."""
    return await _claim(database, "claim_due_observations", runner, batch=batch)


async def claim_recoverable(
    database: Database,
    runner: Runner,
    arm: RecoveryArm,
    batch: int,
    *,
    graces: Mapping[str, float],
    default_grace: float,
) -> list[Claim]:
    """Claim up to `batch` nodes of one arm whose outcome nobody knows."""
    return await _claim(
        database,
        "claim_recoverable",
        runner,
        batch=batch,
        lanes=list(arm.lanes),
        other_lanes=list(arm.other_lanes),
        graces=as_json(dict(graces)),
        default_grace=default_grace,
    )


async def _claim(database: Database, name: str, runner: Runner, **parameters: object) -> list[Claim]:
    bound = {"runner_id": runner.runner_id, "network_class": runner.identity.network_class, **parameters}
    async with database.connection() as connection:
        rows = await (await connection.execute(native(name), bound)).fetchall()
    return [
        Claim(row["node_id"], row["request_id"], runner.runner_id, row["claim_epoch"], NodeState(row["node_state"]))
        for row in rows
    ]


async def release(database: Database, claims: Sequence[Claim], *, delay_seconds: float = 0) -> None:
    """Give nodes back as they were, not to be claimed before the delay is over.

    A claim that was taken over in the meantime is left alone.
    """
    async with database.connection() as connection:
        for claim in claims:
            bound = {
                "node_id": claim.node_id,
                "runner_id": claim.runner_id,
                "claim_epoch": claim.claim_epoch,
                "delay": float(delay_seconds),
            }
            await connection.execute(native("release_claim"), bound)


async def release_forgotten(
    database: Database, runner_id: int, in_work: Collection[str], *, delay_seconds: float = 0
) -> int:
    """Give back every node that a runner holds and that is not among `in_work` (node ids); returns how many."""
    bound = {"runner_id": runner_id, "in_work": list(in_work), "delay": float(delay_seconds)}
    async with database.connection() as connection:
        return (await connection.execute(native("release_forgotten"), bound)).rowcount
