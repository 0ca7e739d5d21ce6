"""A year of a venue's record, read by the web UI's own backfill button."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.world import control_token
from tests.ui.conftest import RunningQtg

pytestmark = pytest.mark.timeout(300)

VENUE = "venue_a"
DAYS = 365
LAST = datetime.now(UTC).date() - timedelta(days=1)
FIRST = LAST - timedelta(days=DAYS - 1)
_READ_SECONDS = 150


@pytest.fixture
def true(running_qtg: RunningQtg) -> dict[str, int]:
    """Others move funds at the sandbox's exchange all through the year: how many rows each record has then."""
    rows = 150
    home = Path(running_qtg.environment["QTG_HOME"])
    address = yaml.safe_load((home / "inventory.yaml").read_text())["venues"][VENUE]["base_url"].rpartition("/")[0]

    async def order() -> dict[str, int]:
        async with ExchangeControl(address, control_token(home)) as control:
            newest = int(datetime.combine(LAST, datetime.min.time(), UTC).timestamp() * 1000) + 3_600_000
            spacing = (DAYS - 1) * 86_400_000 // rows
            for history in ("withdrawals", "deposits"):
                await control.add_rows(VENUE, history, rows, newest_ms=newest, spacing_ms=spacing)
            found: dict[str, list[Any]] = {
                "withdrawal": await control.withdrawals(VENUE),
                "deposit": await control.deposits(VENUE),
            }
            return {kind: len(rows) for kind, rows in found.items()}

    return asyncio.run(order())


def test_a_year_is_read_by_the_backfill_button_and_every_row_is_on_record(
    running_qtg: RunningQtg, true: dict[str, int], page: Page
) -> None:
    page.goto(f"{running_qtg.url}/assets/cex_transfers?view=partitions")
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_placeholder(re.compile("^ex: ")).fill(f"[{FIRST}...{LAST}]")
    page.keyboard.press("Enter")
    unchosen = page.get_by_text("Select a partition or create one")
    expect(unchosen).to_have_count(1, timeout=30_000)  # once the days are taken
    unchosen.click()
    page.locator(f"text={VENUE} >> visible=true").last.click()
    expect(page.get_by_text(f"{DAYS} partitions")).to_be_visible()
    expect(page.get_by_text("maximum of 400 partitions per run")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Launch backfill").click()
    deadline = time.monotonic() + _READ_SECONDS
    while len(shown := running_qtg.command("record", "list", "--venue", VENUE, "--most", "10000").splitlines()) < sum(
        true.values()
    ):
        assert time.monotonic() < deadline, shown[:3]
        time.sleep(1)
    assert {kind: sum(f" {kind} " in line for line in shown) for kind in true} == true
    page.goto(f"{running_qtg.url}/assets/cex_transfers?view=partitions")
    expect(page.get_by_text(f"Materialized ({DAYS})")).to_be_visible()
    unmatched = running_qtg.command("record", "list", "--unmatched", "--most", "10000").splitlines()
    assert len(unmatched) == true["deposit"]  # withdrawals that were called off moved nothing
    answered = ("--venue", VENUE, "--before", LAST.isoformat(), "--by", "ada", "--reason", "the sandbox's strangers")
    assert "acknowledged" in running_qtg.command("record", "acknowledge", *answered)
