"""What a log line may not show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from qtg_dagster.logs import configure_logs


@pytest.fixture
def configured(capsys: pytest.CaptureFixture[str]) -> Iterator[pytest.CaptureFixture[str]]:
    before = structlog.get_config()
    configure_logs()
    yield capsys
    structlog.configure(**before)


def test_a_traceback_shows_the_error_and_none_of_the_variables(configured: pytest.CaptureFixture[str]) -> None:
    canary = "canary-" + "7f3a"

    def submit(secret: str) -> None:
        raise TimeoutError(f"no answer to request {len(secret)}")

    try:
        submit(canary)
    except TimeoutError:
        structlog.get_logger("qtg.test").exception("submit raised", node="n1")
    shown = configured.readouterr().err
    assert "TimeoutError: no answer to request 11" in shown
    assert "node=n1" in shown
    assert canary not in shown


def test_secrets_in_an_event_are_redacted(configured: pytest.CaptureFixture[str]) -> None:
    structlog.get_logger("qtg.test").warning("sent", api_key="canary-9c", url="https://x/y?signature=canary-9d&a=1")
    shown = configured.readouterr().err
    assert "canary" not in shown
    assert "a=1" in shown
