"""Taking nodes to work on, and giving them back."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from psycopg.errors import UniqueViolation

from qtg_dagster.domain.states import NodeState
from qtg_dagster.domain.work import Claim, RecoveryArm
from qtg_dagster.domain.workers import Claimant
from qtg_dagster.store.statements import as_json, native
from qtg_dagster.store.work import WorkOrders

#: Seconds between two looks at whose turn it is under released breakers; `let_through.sql` makes up for as many.
_TURN_SECONDS = 1.0


class Claims(WorkOrders):
    """Who works on which node."""

    _turns_taken = float("-inf")

    async def claim_ready(self, runner: Claimant, batch: int) -> list[Claim]:
        """Claim up to `batch` nodes to dispatch.

        Two runners that meet on one serialization key cannot both win: the unique index refuses the second, which
        then takes nothing this time and looks again. Once a second, turns under released breakers are given out first.
        """
        if time.monotonic() - self._turns_taken >= _TURN_SECONDS:
            await self._let_through(runner)
        try:
            return await self._claim("claim_ready", runner, batch=batch)
        except UniqueViolation:
            return []

    async def claim_due_observations(self, runner: Claimant, batch: int) -> list[Claim]:
        """Claim up to `batch` nodes whose next look is due."""
        return await self._claim("claim_due_observations", runner, batch=batch)

    async def claim_recoverable(
        self,
        runner: Claimant,
        arm: RecoveryArm,
        batch: int,
        *,
        graces: Mapping[str, float],
        default_grace: float,
    ) -> list[Claim]:
        """Claim up to `batch` nodes of one arm whose outcome nobody knows."""
        return await self._claim(
            "claim_recoverable",
            runner,
            batch=batch,
            lanes=[f"{lane}%" for lane in arm.lanes],
            other_lanes=[f"{lane}%" for lane in arm.other_lanes],
            graces=as_json(dict(graces)),
            default_grace=default_grace,
        )

    async def _let_through(self, runner: Claimant) -> None:
        async with self._database.connection() as connection:
            await connection.execute(native("let_through"), {"network_class": runner.identity.network_class})
        self._turns_taken = time.monotonic()

    async def _claim(self, name: str, runner: Claimant, **parameters: object) -> list[Claim]:
        bound = {"runner_id": runner.runner_id, "network_class": runner.identity.network_class, **parameters}
        async with self._database.connection() as connection:
            rows = await (await connection.execute(native(name, "work_of_chosen"), bound)).fetchall()
        claims = [
            Claim(row["node_id"], row["request_id"], runner.runner_id, row["claim_epoch"], NodeState(row["node_state"]))
            for row in rows
        ]
        self.keep_for(claims, rows)
        return claims

    async def release(self, claims: Sequence[Claim], *, delay_seconds: float = 0) -> None:
        """Give nodes back as they were, not to be claimed before the delay is over.

        A claim that was taken over in the meantime is left alone.
        """
        async with self._database.connection() as connection:
            for claim in claims:
                bound = {
                    "node_id": claim.node_id,
                    "runner_id": claim.runner_id,
                    "claim_epoch": claim.claim_epoch,
                    "delay": float(delay_seconds),
                }
                await connection.execute(native("release_claim"), bound)

    async def release_forgotten(self, runner_id: int, in_work: Collection[str], *, delay_seconds: float = 0) -> int:
        """Give back every node that a runner holds and that is not among `in_work` (node ids); returns how many."""
        bound = {"runner_id": runner_id, "in_work": list(in_work), "delay": float(delay_seconds)}
        async with self._database.connection() as connection:
            return (await connection.execute(native("release_forgotten"), bound)).rowcount
