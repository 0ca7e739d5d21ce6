"""Can the venues be reached, and do they still know our keys?"""

from __future__ import annotations

import asyncio

from qtg_dagster.domain.contract import HealthReport, HealthState
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.lanes.cex.accounts import VenueAccount, VenueAccounts


async def venues_health(accounts: VenueAccounts) -> HealthReport | None:
    """Down when no venue answers, degraded when one does not or has something to say; None without venues."""
    asked = list(accounts)
    if not asked:
        return None
    reports = await asyncio.gather(*(venue_health(account) for account in asked))
    detail = "; ".join(f"{account.key}: {report.detail}" for account, report in zip(asked, reports, strict=True))
    states = {report.health_state for report in reports}
    if states == {HealthState.HEALTHY}:
        return HealthReport(health_state=HealthState.HEALTHY, detail=detail)
    state = HealthState.DOWN if states == {HealthState.DOWN} else HealthState.DEGRADED
    return HealthReport(health_state=state, detail=detail)


async def venue_health(account: VenueAccount) -> HealthReport:
    """The venue's own status, and a signed request without effect."""
    try:
        status = await account.read(account.venue.system_status())
        permission = await account.read(account.venue.permissions())
        problems = (
            account.venue.read_system_problem(status),
            account.venue.read_permission_problem(permission),
        )
    except QtgError as problem:
        return HealthReport(health_state=HealthState.DOWN, detail=str(problem))
    found = "; ".join(problem for problem in problems if problem)
    state = HealthState.DEGRADED if found else HealthState.HEALTHY
    return HealthReport(health_state=state, detail=found or "reachable, key accepted")
