"""What a person sees and does in the web UI."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect

from qtg_dagster.definitions import defs
from tests.ui.conftest import RunningQtg

pytestmark = pytest.mark.timeout(300)

_COMPLETION_SECONDS = 120


def _names() -> dict[str, list[str]]:
    """Path of a page -> what must be on it, read from the definitions themselves."""
    repository = defs.get_repository_def()
    automations = [each.name for each in (*repository.sensor_defs, *repository.schedule_defs)]
    jobs = [job.name for job in repository.get_all_jobs() if not job.name.startswith("__")]
    return {
        "/automation": automations,
        "/jobs": jobs,
        "/assets": [key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()],
        "/locations/qtg/resources": list(repository.get_top_level_resources()),
    }


@pytest.mark.parametrize("path", ["/automation", "/jobs", "/assets", "/locations/qtg/resources"])
def test_everything_defined_is_shown_without_a_warning(running_qtg: RunningQtg, page: Page, path: str) -> None:
    names = _names()[path]
    assert names
    complaints: list[str] = []
    page.on("console", lambda line: complaints.append(line.text) if "GraphQL error" in line.text else None)
    page.set_viewport_size({"width": 1600, "height": 200 + 80 * len(names)})  # rows out of sight are not in the page
    page.goto(running_qtg.url + path)
    for name in names:
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    for warning in ("failed to load", "unexpected GraphQL error", "Python Error"):
        expect(page.get_by_text(warning)).to_have_count(0)
    assert complaints == []


def test_an_approval_from_the_launchpad_moves_the_funds(running_qtg: RunningQtg, page: Page) -> None:
    request_id = running_qtg.command("movement", "create", "chain_transfer_usdc", "-p", "amount=3.5", "--by", "ada")
    page.goto(f"{running_qtg.url}/locations/qtg/jobs/approve_movement/playground")
    page.locator(".CodeMirror").first.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    lines = ["ops:", "  approve:", "    config:", f"      request_id: {request_id}", "      actor: grace"]
    page.keyboard.insert_text("\n".join(lines) + "\n")
    launch = page.get_by_role("button", name="Launch Run")
    expect(launch).to_be_enabled()
    launch.click()
    page.wait_for_url("**/runs/**")
    expect(page.get_by_text("RUN_SUCCESS").first).to_be_visible()
    deadline = time.monotonic() + _COMPLETION_SECONDS
    while "COMPLETED " not in (shown := running_qtg.command("movement", "show", request_id)).splitlines()[0]:
        assert time.monotonic() < deadline, shown
        time.sleep(1)
    assert "tx_hash=0x" in shown


def test_a_refused_approval_says_why_on_the_runs_page(running_qtg: RunningQtg, page: Page) -> None:
    page.goto(f"{running_qtg.url}/locations/qtg/jobs/approve_movement/playground")
    page.locator(".CodeMirror").first.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    nobody = "00000000-0000-0000-0000-000000000000"
    lines = ["ops:", "  approve:", "    config:", f"      request_id: {nobody}", "      actor: grace"]
    page.keyboard.insert_text("\n".join(lines) + "\n")
    page.get_by_role("button", name="Launch Run").click()
    page.wait_for_url("**/runs/**")
    expect(page.get_by_text("there is no movement request").first).to_be_visible()
