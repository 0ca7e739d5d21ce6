"""Callbacks from the launchpad and the checks: what was given up is seen, redriven, told once more."""

from __future__ import annotations

import dagster as dg
import pytest

from assets.callbacks import NONE_IN_DLQ
from qtg_dagster.composition import Platform
from tests.orchestration.shapes import Ask, Launch, Report, Rows, Shown

WHO = {"actor": "ada", "reason": "the hook was moved"}


@pytest.fixture
def given_up(approved: str, ask: Ask) -> str:
    """A movement with a callback in the dlq."""

    async def lose(platform: Platform) -> None:
        async with platform.database.connection() as connection:
            await connection.execute(
                "INSERT INTO qtg.movement_callback_outbox (request_id, event_type, callback_url, status, attempts, "
                "last_error) VALUES (%s, 'frontier_advanced', 'https://hooks.example.com/', 'dlq', 5, 'http_500: no')",
                (approved,),
            )

    ask(lose)
    return approved


def status(rows: Rows) -> list[str]:
    return [row["status"] for row in rows("SELECT status FROM qtg.movement_callback_outbox")]


def test_what_was_given_up_is_redriven_and_told_once_more_from_the_launchpad(
    given_up: str, launch: Launch, metadata: Shown, rows: Rows
) -> None:
    redriven = launch("redrive_callbacks", "redrive", receiver="hooks.example.com", **WHO)
    assert metadata(redriven)["callbacks"] == 1
    assert status(rows) == ["pending"]
    resent = launch("resend_callbacks", "resend", request_id=given_up, **WHO)
    assert metadata(resent) == {"told once more": 0, "on their way already": 1}
    trail = rows("SELECT action FROM qtg.audit_outbox WHERE subject_type = 'callbacks' ORDER BY id")
    assert [row["action"] for row in trail] == ["redrive_callbacks", "resend_callbacks"]


def test_what_cannot_be_done_is_refused_on_the_runs_page(launch: Launch, failure: Shown) -> None:
    assert failure(launch("resend_callbacks", "resend", **WHO)).metadata["field"].value == "callbacks"
    unknown = launch("resend_callbacks", "resend", transaction_hash="0x1", **WHO)
    assert "no callback of transaction_hash '0x1'" in failure(unknown).description


def test_the_check_fails_while_something_is_given_up_and_says_what(
    given_up: str, launch: Launch, report: Report
) -> None:
    _, checks, cursor = report()
    assert checks[NONE_IN_DLQ] is False
    assert launch("redrive_callbacks", "redrive", **WHO).success
    _, checks, _ = report(cursor)
    assert checks == {NONE_IN_DLQ: True}


def test_the_check_can_be_run_by_hand(given_up: str, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    check = dg.AssetCheckKey(dg.AssetKey("callbacks"), NONE_IN_DLQ)
    job = dg.define_asset_job("check", selection=dg.AssetSelection.checks(check))
    with_job = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    result = with_job.resolve_job_def("check").execute_in_process(instance=instance)
    [evaluation] = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert evaluation.metadata["hooks.example.com"].value.endswith("last: http_500: no")
