"""Do the chains answer, each as itself?"""

from __future__ import annotations

import asyncio

from qtg_dagster.domain.contract import HealthReport, HealthState
from qtg_dagster.lanes.evm.rpc import ChainRpc, Chains, WrongChain


async def chains_health(chains: Chains) -> HealthReport | None:
    """Down when no chain can be worked on, degraded when one cannot or an endpoint is missing; None without chains.

    All endpoints of all chains are asked at once, so that one that is silent takes `chains.health_seconds` in all.
    """
    asked = chains.all()
    if not asked:
        return None
    reports = await asyncio.gather(*(chain_health(chain, chains.health_seconds) for chain in asked))
    states = {report.health_state for report in reports}
    if states == {HealthState.HEALTHY}:
        return HealthReport(health_state=HealthState.HEALTHY, detail="; ".join(report.detail for report in reports))
    problems = "; ".join(report.detail for report in reports if report.health_state is not HealthState.HEALTHY)
    state = HealthState.DOWN if states == {HealthState.DOWN} else HealthState.DEGRADED
    return HealthReport(health_state=state, detail=problems)


async def chain_health(chain: ChainRpc, seconds: float) -> HealthReport:
    """Down when no endpoint answers or one serves another chain, since nothing is prepared there then."""
    answers = await chain.heights(seconds)
    heights = [answer for answer in answers if isinstance(answer, int)]
    problems = [answer for answer in answers if not isinstance(answer, int)]
    if not problems:
        return HealthReport(health_state=HealthState.HEALTHY, detail=f"{chain.key} at block {max(heights)}")
    usable = heights and not any(isinstance(problem, WrongChain) for problem in problems)
    return HealthReport(
        health_state=HealthState.DEGRADED if usable else HealthState.DOWN,
        detail="; ".join(f"{chain.key}: {problem}" for problem in problems),
    )
