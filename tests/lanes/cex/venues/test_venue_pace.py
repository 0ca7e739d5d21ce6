"""ccxt's rate limiter, as each venue sets it, leaves time for what has to be asked. Nothing is sent here."""

from __future__ import annotations

import asyncio
import pkgutil
from importlib import import_module
from typing import Any

import pytest

from qtg_dagster.lanes.cex import venues
from qtg_dagster.lanes.cex.accounts import HEALTH_SECONDS
from qtg_dagster.lanes.cex.transport import Credentials, Transport
from qtg_dagster.lanes.cex.venue import Call, Venue, load_venue
from qtg_dagster.secret import Secret

ADAPTERS = [load_venue(module.name) for module in pkgutil.iter_modules(venues.__path__)]


def cost_of(ccxt_id: str, call: Call) -> float:
    """What ccxt counts for a request."""
    listed: Any = import_module(f"ccxt.abstract.{ccxt_id}").ImplicitAPI.__dict__[call.method]
    return float(listed.config["cost"])


@pytest.mark.parametrize("venue", ADAPTERS, ids=lambda venue: venue.ccxt_id)
async def test_two_health_checks_wait_for_no_turn(venue: Venue) -> None:
    transport = Transport(
        venue.ccxt_id,
        Credentials(Secret("key"), Secret("c2VjcmV0"), Secret("passphrase")),
        rate_window_seconds=venue.rate_window_seconds,
    )
    try:
        await transport.ready_to_submit(0)
        client = transport._client
        assert client.enableRateLimit
        asked = [call for call in (venue.system_status(), venue.permissions()) if call is not None]
        costs = [cost_of(venue.ccxt_id, call) for call in asked]
        for _ in range(2):
            async with asyncio.timeout(HEALTH_SECONDS / 2):
                for cost in costs:
                    await client.throttle(cost)
    finally:
        await transport.close()


@pytest.mark.parametrize(
    "venue", [venue for venue in ADAPTERS if venue.rate_window_seconds], ids=lambda venue: venue.ccxt_id
)
async def test_the_window_still_limits(venue: Venue) -> None:
    transport = Transport(
        venue.ccxt_id, Credentials(Secret("key"), Secret("c2VjcmV0")), rate_window_seconds=venue.rate_window_seconds
    )
    try:
        await transport.ready_to_submit(0)
        client = transport._client
        room = venue.rate_window_seconds * 1000 / client.rateLimit
        await client.throttle(room)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.throttle(1)
    finally:
        await transport.close()
