"""The two commands together, each a process of its own: one serves a shipped executor, the other judges it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

from qtg_dagster.executors.conformance import Clause
from qtg_dagster.executors.conformance.provider_book import PROVIDER_KNOBS
from qtg_dagster.executors.remote.hosting import Listening, describe, hosting
from qtg_dagster.host.paths import project_root
from tests.executors.conformance.cex_bench import CexBench, inventory_entries, open_cex_bench
from tests.executors.conformance.service import SHARED, book_app
from tests.lanes.cex.conftest import API_KEY, API_SECRET

_KEY = "exec.cex.withdrawal_action"
_COMMAND = (sys.executable, "-m", "qtg_dagster", "executor")
_SECONDS = 60


@asynccontextmanager
async def served_by_the_command(
    folder: Path, bench: CexBench, database_url: str
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The service's URL and its process, with the bench's venue in its inventory."""
    (folder / "inventory.yaml").write_text(json.dumps(inventory_entries(bench.venue)))
    secrets = {"SERVE_SECRET": SHARED, "VENUE_A_KEY": API_KEY, "VENUE_A_SECRET": API_SECRET}
    with (folder / "serve.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(*_COMMAND, "serve", _KEY, "--port", "0", "--secret-env", "SERVE_SECRET", "--signs-not"),
            env={**os.environ, **secrets, "DATABASE_URL": database_url, "QTG_HOME": str(folder)},
            cwd=project_root(),
            stdout=PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    try:
        said = (await asyncio.wait_for(process.stdout.readline(), _SECONDS)).decode().strip()
        assert said.startswith(f"serving {_KEY} on http://127.0.0.1:"), said
        yield said.rpartition(" ")[2], process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def verified(url: str, *words: str) -> tuple[int | None, str]:
    """Exit code of `qtg executor verify URL`, and all that it printed."""
    secrets = {"VERIFY_SECRET": SHARED, "VENUE_SECRET": API_SECRET, "VENUE_KEY": API_KEY}
    process = await asyncio.create_subprocess_exec(
        *(*_COMMAND, "verify", url, "--key", _KEY, "--secret-env", "VERIFY_SECRET"),
        *("--canary-env", "VENUE_SECRET", "--canary-env", "VENUE_KEY", *words),
        env={**os.environ, **secrets},
        cwd=project_root(),
        stdout=PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
    return process.returncode, printed.decode()


async def order_file(folder: Path, bench: CexBench) -> Path:
    """What is known of the service: the order, the declarations, and the inventory's words for it."""
    described = describe(_KEY, bench.executor, signs=False)
    known = {
        "context": (await bench.context()).model_dump(mode="json"),
        "declared": bench.declared.model_dump(mode="json"),
        "terms": {"submit_grace_seconds": described.submit_grace_seconds, "signs": False},
        "timeouts": {"health": 1},
    }
    file = folder / "order.json"
    file.write_text(json.dumps(known))
    return file


async def test_what_one_command_serves_the_other_finds_right(database_url: str, tmp_path: Path) -> None:
    found = tmp_path / "found.xml"
    async with open_cex_bench(_KEY) as bench:
        book = book_app(bench.effects, bench.show, PROVIDER_KNOBS)
        async with (
            hosting(book, Listening()) as (book_url, _),
            served_by_the_command(tmp_path, bench, database_url) as (url, service),
        ):
            known = ("--context", str(await order_file(tmp_path, bench)), "--book", book_url)
            code, printed = await verified(url, *known, "--junit", str(found))
            service.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(service.wait(), _SECONDS) == 0
    assert code == 0, printed
    assert f"{url}: {len(Clause)} passed, 0 broken, 0 not judged, 0 exempt" in printed
    assert "no whole answer within 1 s" in printed, "the timeouts are those of the file"
    assert len(bench.venue.withdrawals) > len(Clause) / 2, "the withdrawals were asked of the venue"
    _check_junit(found, url)
    shown = printed + found.read_text() + (tmp_path / "serve.log").read_text()
    assert not [secret for secret in (SHARED, API_KEY, API_SECRET) if secret in shown]


def _check_junit(file: Path, url: str) -> None:
    (suite,) = ET.parse(file).getroot()  # noqa: S314 - our own file
    counted = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": str(len(Clause)), "failures": "0", "errors": "0", "skipped": "0"}
    assert [case.get("name") for case in suite] == [clause.value for clause in Clause]
    assert {case.get("classname") for case in suite} == {url}
    assert all(case.findtext("system-out") for case in suite), "each says what was seen"
