"""The review on a run's page, and that looking decides nothing."""

from __future__ import annotations

import json

import pytest

from qtg_dagster.domain.plans import Plan
from tests.orchestration.shapes import Launch, Rows, Shown


@pytest.fixture
def created(launch: Launch, plan: Plan, metadata: Shown) -> str:
    """A movement that waits for approval."""
    assert launch("publish_templates", "publish", document=json.dumps(plan.model_dump(mode="json"))).success
    return str(
        metadata(
            launch(
                "create_movement", "create", template_key=plan.template_key, requested_by="ada", reason="<b>[rent](x)"
            )
        )["request id"]
    )


def test_the_page_shows_warnings_first_and_the_plan(launch: Launch, created: str, metadata: Shown, rows: Rows) -> None:
    shown = metadata(launch("review_movement", "review", request_id=created))
    assert next(iter(shown)) == "warnings"
    assert "never checked" in shown["warnings"]
    assert shown["plan"].index("move") < shown["plan"].index("watch")
    assert "✓ as stored" in shown["movement"]
    assert "asked for by | ada: \\<b\\>\\[rent\\](x) |" in shown["movement"]
    [request] = rows("SELECT request_state FROM qtg.movement_requests")
    assert request["request_state"] == "PENDING_APPROVAL"


def test_a_movement_that_is_not_there_is_refused_on_the_page(launch: Launch, failure: Shown) -> None:
    assert failure(launch("review_movement", "review", request_id="not-there")).metadata["error"].value == "NotFound"
