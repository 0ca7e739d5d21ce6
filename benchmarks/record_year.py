"""A year of a venue's record by the web UI's own backfill: `python -m benchmarks.record_year [--rows N] [--json FILE]`.

A stand-in of Binance is given rows of others, a tenth of them not ended. The GraphQL mutation behind the web UI's
button has the year read while those rows end in any order and new ones come in between pages. A second backfill brings
came behind the first; then both records must be equal, row for row. A third must write no row.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psycopg
import yaml
from pydantic import SecretStr

from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.sandbox.exchange.standalone import Surroundings, prepare
from qtg_dagster.secret import Secret

VENUE = "binance"
HISTORIES = ("withdrawals", "deposits")
#: Of each history: what rows stand as, and how many of a hundred do.
SHARES = {
    "withdrawals": {"completed": 80, "cancelled": 8, "failure": 2, "processing": 7, "awaiting_approval": 3},
    "deposits": {"success": 88, "wrong": 2, "pending": 7, "credited_locked": 3},
}
OPEN = {"withdrawals": ("processing", "awaiting_approval"), "deposits": ("pending", "credited_locked")}
ENDS = {"withdrawals": ("completed", "failure", "cancelled"), "deposits": ("success", "rejected")}
TABLES = ("cex_transfers", "cex_transfer_events", "cex_transfer_days")
_LAUNCH = """mutation LaunchPartitionBackfill($backfillParams: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $backfillParams) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
_STATUS = """query Status($id: String!) { partitionBackfillOrError(backfillId: $id) {
    ... on PartitionBackfill { status error { message } runs: unfinishedRuns { id } } } }"""
_RUNS = """query Runs($id: String!) { runsOrError(filter: {tags: [{key: "dagster/backfill", value: $id}]}) {
    ... on Runs { results { id status startTime endTime } } } }"""


@dataclass(frozen=True, slots=True)
class Backfill:
    """One backfill: from the mutation to COMPLETED, and its runs from start to end."""

    status: str
    wall_seconds: float
    runs: int
    run_seconds: float


class WebUi:
    """The web server's GraphQL, as the page uses it."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=60, trust_env=False)

    async def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        reply = (await self._http.post("/graphql", json={"query": query, "variables": variables})).json()
        assert "errors" not in reply, reply
        found: dict[str, Any] = reply["data"]
        return found

    async def backfill(self, days: list[date], started: asyncio.Event | None = None) -> Backfill:
        """Launch the days of the venue, and wait; says when its first run works."""
        begun = time.monotonic()
        parameters = {
            "assetSelection": [{"path": ["cex_transfers"]}],
            "partitionNames": [f"{day}|{VENUE}" for day in days],
            "fromFailure": False,
            "tags": [],
        }
        launched = (await self.ask(_LAUNCH, backfillParams=parameters))["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        number = launched["backfillId"]
        while True:
            found = (await self.ask(_STATUS, id=number))["partitionBackfillOrError"]
            runs = (await self.ask(_RUNS, id=number))["runsOrError"]["results"]
            if started is not None and any(run["status"] == "STARTED" for run in runs):
                started.set()
            if found["status"] not in ("REQUESTED", "CANCELING", "FAILING"):
                break
            await asyncio.sleep(0.1)
        wall = time.monotonic() - begun
        assert all(run["status"] == "SUCCESS" for run in runs), (found, runs)
        return Backfill(found["status"], wall, len(runs), sum(run["endTime"] - run["startTime"] for run in runs))

    async def close(self) -> None:
        await self._http.aclose()


@asynccontextmanager
async def stand_in(folder: Path) -> AsyncIterator[tuple[str, dict[str, str], str]]:
    """Binance's stand-in as a process of its own: address, credentials, control token."""
    config = prepare(folder, [VENUE], Surroundings())
    venue = config.venues[VENUE].model_copy(update={"initial_balances": {"ETH": "1000000", "USDC": "1000000000"}})
    config = config.model_copy(update={"venues": {VENUE: venue}})
    file = folder / "exchange.json"
    config.save(file)
    process = subprocess.Popen(
        [sys.executable, "-m", "qtg_dagster.sandbox.exchange", "--config", str(file), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().rpartition(" on ")[2].strip()
        assert isinstance(venue.api_secret, SecretStr)
        keys = {"key": venue.api_key, "secret": venue.api_secret.get_secret_value()}
        yield address, keys, config.control_token.get_secret_value()
    finally:
        process.terminate()
        process.wait(timeout=30)


@asynccontextmanager
async def qtg(home: Path, inventory: Path, keys: dict[str, str], since: date) -> AsyncIterator[str]:
    """`qtg up` over that inventory, without a sandbox: the web UI's address."""
    environment = {name: text for name, text in os.environ.items() if name not in ("DATABASE_URL", "DAGSTER_HOME")}
    environment |= {
        "QTG_HOME": str(home),
        "MG_INVENTORY_FILE": str(inventory),
        "MG_CEX_TRANSFER_INGEST_SINCE": since.isoformat(),
        "RECORD_KEY": keys["key"],
        "RECORD_SECRET": keys["secret"],
        "PYTHONUNBUFFERED": "1",
    }
    log = (home / "up.log").open("w")
    command = [sys.executable, "-m", "qtg_dagster", "up", "--no-sandbox"]
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        while True:
            assert process.poll() is None, (home / "up.log").read_text()
            ready = [line for line in (home / "up.log").read_text().splitlines() if line.startswith("QTG is up: ")]
            if ready:
                break
            await asyncio.sleep(0.5)
        yield ready[0].split()[3]
    finally:
        process.terminate()
        process.wait(timeout=90)
        log.close()


async def fill(control: ExchangeControl, days: list[date], rows: int, rng: random.Random) -> list[tuple[str, str]]:
    """Rows on every day, more of them lately; those that have not ended, shuffled."""
    waiting: list[tuple[str, str]] = []
    weights = [4 if number >= len(days) - 25 else 1 for number in range(len(days))]
    for history in HISTORIES:
        for status, share in SHARES[history].items():
            left = rows // 2 * share // 100
            counts = [0] * len(days)
            for chosen in rng.choices(range(len(days)), weights, k=left):
                counts[chosen] += 1
            for day, count in zip(days, counts, strict=True):
                if not count:
                    continue
                newest = datetime.combine(day, datetime.min.time(), UTC) + timedelta(
                    seconds=rng.randrange(3600, 80_000)
                )
                newest = min(newest, datetime.now(UTC) - timedelta(minutes=1))
                keys = await control.add_rows(
                    VENUE, history, count, coin=rng.choice(["ETH", "USDC"]), status=status,
                    newest_ms=int(newest.timestamp() * 1000), spacing_ms=rng.randrange(0, 30_000),
                )  # fmt: skip
                waiting += [(history, key) for key in keys] if status in OPEN[history] else []
    rng.shuffle(waiting)
    return waiting


async def disturb(
    control: ExchangeControl, waiting: list[tuple[str, str]], rng: random.Random, started: asyncio.Event
) -> int:
    """End what waits, in any order, from when the run works, and let rows come in between its pages."""
    for history in HISTORIES:
        await control.order(FaultKind.PAGING_SHIFT, endpoint=history, rows=7, skip=12, times=6)
    came = 0
    await started.wait()
    while waiting:
        history, key = waiting.pop()
        await control.go_on(VENUE, history, key, rng.choice(ENDS[history]))
        if rng.random() < 0.1:
            await control.add_rows(VENUE, history, 1, coin="USDC", status=ENDS[history][0])
            came += 1
    await control.clear_faults()
    return came


def ours(url: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Our record: identity -> status, amount, fee, coin, address, transaction, as the venue's wire told them."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT kind, row_key, raw_status, amount, fee, coin, address, coalesce(tx_id, ''), occurred_at "
            "FROM qtg.cex_transfers"
        ).fetchall()
    return {
        (kind, key): (status, _plain(amount), _plain(fee), coin, address, tx, f"{at.astimezone(UTC):%F %T}")
        for kind, key, status, amount, fee, coin, address, tx, at in rows
    }


async def theirs(control: ExchangeControl) -> dict[tuple[str, str], tuple[str, ...]]:
    """The venue's books in the same shape."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for row in await control.withdrawals(VENUE):
        found["withdrawal", row["id"]] = _shape(row, row["net"], row["fee"], row["applied_ms"])
    for row in await control.deposits(VENUE):
        found["deposit", row["id"]] = _shape(row, row["amount"], "0", row["inserted_ms"])
    return found


def _shape(row: dict[str, Any], amount: str, fee: str, at_ms: int) -> tuple[str, ...]:
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    told = (str(row["status"]), _plain(Decimal(amount)), _plain(Decimal(fee)))
    return (*told, row["coin"], row["address"], row["tx_hash"] or "", f"{at:%F %T}")


def _plain(amount: Decimal) -> str:
    return f"{amount.normalize():f}"


def versions(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row version of the record's tables."""
    with psycopg.connect(url) as connection:
        return {
            table: connection.execute(f"SELECT xmin::text, ctid::text FROM qtg.{table} ORDER BY ctid").fetchall()  # noqa: S608
            for table in TABLES
        }


def writes(url: str) -> dict[str, int]:
    """Rows inserted, updated and deleted so far, by table, as PostgreSQL counts them."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        found = connection.execute(
            "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables "
            "WHERE relname LIKE 'cex_transfer%'"
        ).fetchall()
    return {str(name): int(count) for name, count in found}


async def run(home: Path, rows: int, day_count: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)  # noqa: S311 - a day that can be had again
    today = datetime.now(UTC).date()
    days = [today - timedelta(days=number) for number in reversed(range(day_count))]
    async with stand_in(home) as (address, keys, token), ExchangeControl(address, Secret(token)) as control:
        inventory = home / "inventory.yaml"
        assets = {"USDC": {"symbol": "USDC", "decimals": 6}}
        entry = {
            "wire": VENUE, "base_url": f"{address}/{VENUE}", "api_key": {"env": "RECORD_KEY"},
            "api_secret": {"env": "RECORD_SECRET"}, "assets": {"USDC": "USDC"}, "networks": {},
        }  # fmt: skip
        inventory.write_text(yaml.safe_dump({"assets": assets, "venues": {VENUE: entry}}))
        begun = time.monotonic()
        waiting = await fill(control, days, rows, rng)
        print(f"{rows} rows, {len(waiting)} not ended, made in {time.monotonic() - begun:.1f} s", flush=True)
        async with qtg(home, inventory, keys, days[0]) as web:
            return await measure(WebUi(web), control, waiting, days, EmbeddedPostgres(home).start(), rng)


async def measure(
    ui: WebUi, control: ExchangeControl, waiting: list[tuple[str, str]], days: list[date], url: str, rng: random.Random
) -> dict[str, Any]:
    started = asyncio.Event()
    ended = len(waiting)
    disturbing = asyncio.create_task(disturb(control, waiting, rng, started))
    first = await ui.backfill(days, started)
    kept, left = len(ours(url)), len(waiting)
    came = await disturbing
    print(f"first: {first}; {kept} rows kept; meanwhile {ended - left} ended, in all {ended}; {came} came", flush=True)
    second = await ui.backfill(days)
    true, mine = await theirs(control), ours(url)
    different = {key for key in true.keys() | mine.keys() if true.get(key) != mine.get(key)}
    print(f"second: {second}; {len(mine)} of {len(true)} rows, {len(different)} differ", flush=True)
    assert not different, [(key, true.get(key), mine.get(key)) for key in sorted(different)[:5]]
    before, counted = versions(url), writes(url)
    third = await ui.backfill(days)
    after = writes(url)
    wrote = {table: after[table] - counted[table] for table in after}
    print(f"third: {third}; rows written: {wrote}", flush=True)
    assert versions(url) == before
    assert {table: wrote[table] for table in TABLES} == dict.fromkeys(TABLES, 0)
    await ui.close()
    return {
        "rows": len(true),
        "days": len(days),
        "first": {"wall_s": round(first.wall_seconds, 1), "runs": first.runs, "run_s": round(first.run_seconds, 2),
                  "rows_per_s": round(kept / first.run_seconds)},
        "second": {"wall_s": round(second.wall_seconds, 1), "run_s": round(second.run_seconds, 2)},
        "third": {"wall_s": round(third.wall_seconds, 1), "run_s": round(third.run_seconds, 2), "written": wrote},
        "differing": len(different),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qtg-record-") as folder:
        home = Path(folder)
        home.chmod(0o711)
        figures = asyncio.run(run(home, given.rows, given.days, given.seed))
    print(json.dumps(figures, indent=2))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
