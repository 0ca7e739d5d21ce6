"""Can the venues be reached, and do they still know our keys?"""

from __future__ import annotations

import asyncio

from qtg_dagster.domain.contract import HealthReport, HealthState
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.lanes.cex.accounts import VenueAccount, VenueAccounts


async def venues_health(accounts: VenueAccounts) -> HealthReport | None:
    """Down when no venue answers, degraded when one does not or has something to say; None without venues.

    All are asked at once, so that one that is silent takes `accounts.health_seconds` in all.
    """
    asked = list(accounts)
    if not asked:
        return None
    reports = await asyncio.gather(*(venue_health(account, accounts.health_seconds) for account in asked))
    detail = "; ".join(f"{account.key}: {report.detail}" for account, report in zip(asked, reports, strict=True))
    states = {report.health_state for report in reports}
    if states == {HealthState.HEALTHY}:
        return HealthReport(health_state=HealthState.HEALTHY, detail=detail)
    state = HealthState.DOWN if states == {HealthState.DOWN} else HealthState.DEGRADED
    return HealthReport(health_state=state, detail=detail)


async def venue_health(account: VenueAccount, seconds: float) -> HealthReport:
    """The venue's own status, and a signed request without effect, both within `seconds`."""
    said: list[str] = []
    try:
        await account.open()
        async with asyncio.timeout(seconds):
            for ask in (account.maintenance, account.permission_problem):
                problem = await ask()
                said += [problem] if problem else []
    except TimeoutError:
        return HealthReport(health_state=HealthState.DOWN, detail=f"no answer within {seconds:g} s")
    except QtgError as error:
        return HealthReport(health_state=HealthState.DOWN, detail="; ".join([*said, str(error)]))
    state = HealthState.DEGRADED if said else HealthState.HEALTHY
    return HealthReport(health_state=state, detail="; ".join(said) or "reachable, key accepted")
