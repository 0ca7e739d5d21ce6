"""A process that dies just after its withdrawal request left: another process finds the withdrawal."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from qtg_dagster.domain.contract import PreparedAction, ResultStatus

PROGRAMME = """
import asyncio, sys
from pathlib import Path
from qtg_dagster.domain.contract import ExecutionContext
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.cex import register

async def main(folder):
    executors = ExecutorRegistry()
    register(executors, Inventory.model_validate_json((folder / "inventory.json").read_text()))
    context = ExecutionContext.model_validate_json((folder / "context.json").read_text())
    action = executors.resolve("exec.cex.withdrawal_action")
    prepared = await action.prepare(context)
    (folder / "prepared.json").write_text(prepared.model_dump_json())
    await action.submit(context, prepared)

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("executes", [True, False])
async def test_a_kill_after_the_bytes_left_is_resolved_by_another_process(
    executes: bool, venue: Any, lane: Any, work_order: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inventory.json").write_text(lane.cex.accounts.inventory.model_dump_json())
    (tmp_path / "context.json").write_text(work_order().model_dump_json())
    venue.on_submit(executes=executes)
    monkeypatch.setenv("QTG_FAULT", "submit_bytes_sent:kill")

    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAMME, str(tmp_path))
    try:
        code = await asyncio.wait_for(process.wait(), 100)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    for _ in range(300):
        if venue.posts:
            break
        await asyncio.sleep(0.01)

    prepared = PreparedAction.model_validate_json((tmp_path / "prepared.json").read_text())
    answer = await lane.executor("withdrawal_action").recover(work_order({"prepared": prepared}))
    assert code == -signal.SIGKILL
    assert venue.posts == 1
    assert len(venue.withdrawals) == int(executes)
    assert answer.status is (ResultStatus.COMPLETED if executes else ResultStatus.UNKNOWN)
