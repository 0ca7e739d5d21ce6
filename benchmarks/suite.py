"""All cases in one go on one PostgreSQL: `./qtg bench`. Each run is a child process; systems take turns."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.place import peers_python, versions
from benchmarks.server import fresh_database, server, settings_of
from qtg_dagster.host.bytecode import compile_sources

PEERS = ("dbos", "pgqueuer", "procrastinate")
CASES = (
    "throughput",
    "enqueue",
    "observing",
    "growth",
    "processes",
    "hand-over",
    "event-log",
    "callbacks",
    "retention",
    "kill",
)
_ROOT = Path(__file__).parent.parent


@dataclass
class Suite:
    """One run of the benchmarks: what was measured, raw, and the rows of the table."""

    url: str
    home: Path
    quick: bool
    say: Callable[[str], None]
    with_peers: bool = True
    raw: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    def ours(self, name: str, module: str, *arguments: str) -> dict[str, float]:
        """Run one of our modules once and keep its figures."""
        return self._keep(name, [sys.executable, "-m", f"benchmarks.{module}", "--url", self.url, *arguments])

    def peer(self, name: str, peer: str, *arguments: str) -> dict[str, float]:
        """Run one case of a peer once, on an empty database."""
        with fresh_database(self.url, "bench_peer", migrated=False) as own:
            python = str(peers_python(self.home))
            command = [python, "-m", f"benchmarks.peers.{peer}_peer", arguments[0], own, *arguments[1:]]
            return self._keep(name, command)

    def _keep(self, name: str, command: list[str]) -> dict[str, float]:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=1800)
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed:\n{done.stderr[-3000:]}")
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        self.raw.setdefault(name, []).append(figures)
        self.say(f"  {name}: " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items()))
        return figures

    def median(self, name: str, figure: str) -> float:
        return statistics.median(run[figure] for run in self.raw[name])

    def spread(self, name: str, figure: str) -> str:
        """Median and range, for the table."""
        values = [run[figure] for run in self.raw[name]]
        return f"{statistics.median(values):.4g} ({min(values):.4g}..{max(values):.4g})"

    def row(self, what: str, measured: str, value: float, bar: float, *, at_least: bool) -> None:
        met = value >= bar if at_least else value <= bar
        wanted = f"{'>=' if at_least else '<='} {bar:g}"
        self.rows.append((what, measured, f"{value:.3g}", f"{wanted} {'met' if met else 'MISSED'}"))


def throughput(suite: Suite) -> None:
    many = ["--movements", "200" if suite.quick else "1000"]
    for _ in range(3):
        suite.ours("qtg throughput", "throughput", *many)
        suite.ours("floor throughput", "floor", *many)
        for peer in PEERS if suite.with_peers else ():
            suite.peer(f"{peer} throughput", peer, "throughput", *many)
    ours = suite.median("qtg throughput", "per_second")
    bars = {"floor": 0.6, "dbos": 3.0, "pgqueuer": 1.0, "procrastinate": 1.0}
    for other, bar in bars.items():
        name = f"{other} throughput"
        if name in suite.raw:
            measured = f"{suite.spread('qtg throughput', 'per_second')} / {suite.spread(name, 'per_second')}"
            ratio = ours / suite.median(name, "per_second")
            suite.row(f"(a) nodes/s, against {other}", measured, ratio, bar, at_least=True)


def enqueue(suite: Suite) -> None:
    seconds = ["--seconds", "5" if suite.quick else "15"]
    for _ in range(3):
        suite.ours("qtg enqueue", "enqueue", *seconds)
        for peer in PEERS if suite.with_peers else ():
            suite.peer(f"{peer} enqueue", peer, "latency", *seconds)
    for figure, bar in (("p50_ms", 10.0), ("p99_ms", 50.0)):
        measured = suite.spread("qtg enqueue", figure)
        value = suite.median("qtg enqueue", figure)
        suite.row(f"(b) enqueue to provider call, {figure}", measured, value, bar, at_least=False)
    for peer in PEERS if suite.with_peers else ():
        name = f"{peer} enqueue"
        measured = f"{suite.spread('qtg enqueue', 'p50_ms')} / {suite.spread(name, 'p50_ms')}"
        ratio = suite.median("qtg enqueue", "p50_ms") / suite.median(name, "p50_ms")
        suite.row(f"(b) p50, against {peer}", measured, ratio, 2.5, at_least=False)


def observing(suite: Suite) -> None:
    for _ in range(3):
        suite.ours("qtg observing", "observing", "--nodes", "1000" if suite.quick else "5000")
    measured = suite.spread("qtg observing", "seconds")
    suite.row(
        "(c) due at once, all observed, s", measured, suite.median("qtg observing", "seconds"), 5.05, at_least=False
    )


def growth(suite: Suite) -> None:
    sizes = "1000,20000" if suite.quick else "1000,100000,1000000"
    found = suite.ours("qtg growth", "growth", "--sizes", sizes)
    first, last = found[sizes.split(",")[0]], found[sizes.split(",")[-1]]
    measured = " / ".join(f"{size}: {rate:.4g}" for size, rate in found.items())
    suite.row("(d) cost of a node, largest against 1,000", measured, first / last, 1.3, at_least=False)


def processes(suite: Suite) -> None:
    many = ["--movements", "200" if suite.quick else "1000"]
    for in_flight in (32, 4):
        name = f"qtg processes, {in_flight} in flight"
        found = suite.ours(name, "two_processes", *many, "--in-flight", str(in_flight))
        measured = (
            f"{found['two']:.4g} / {found['one']:.4g}, cores busy {found['busy_two']:.0%} / {found['busy_one']:.0%}"
        )
        what = f"(g) two processes against one, {in_flight} in flight"
        suite.row(what, measured, found["two"] / found["one"], 1.6, at_least=True)


def hand_over(suite: Suite) -> None:
    found = suite.ours("qtg hand-over", "hand_over", "--seconds", "15" if suite.quick else "30")
    measured = f"{found['hand_overs']:.0f} hand-overs, p50 {found['p50_ms']:.3g}"
    suite.row("(h) longest wait over hand-overs, ms", measured, found["max_ms"], 1000, at_least=False)


def event_log(suite: Suite) -> None:
    many = ["--movements", "200" if suite.quick else "1000"]
    for _ in range(3):
        suite.ours("event log answers", "event_log", *many)
        suite.ours("event log hangs", "event_log", *many, "--hang")
    hangs, answers = suite.spread("event log hangs", "per_second"), suite.spread("event log answers", "per_second")
    ratio = suite.median("event log hangs", "per_second") / suite.median("event log answers", "per_second")
    suite.row("(i) nodes/s, event log hanging against answering", f"{hangs} / {answers}", ratio, 0.95, at_least=True)


def callbacks(suite: Suite) -> None:
    for _ in range(1 if suite.quick else 3):
        suite.ours("qtg callbacks", "callbacks")
    measured = suite.spread("qtg callbacks", "seconds")
    worst = max(run["lost"] + run["doubled"] for run in suite.raw["qtg callbacks"])
    what = "(j) 1,000 callbacks, 5 of 50 receivers hanging: the other 45 done, s"
    suite.row(what, measured, suite.median("qtg callbacks", "seconds"), 10, at_least=False)
    suite.row("(j) callbacks of the 45 lost or told twice", f"{worst:g}", worst, 0, at_least=False)


def retention(suite: Suite) -> None:
    found = suite.ours("retention", "retention", *(["--trees", "5000", "--seconds", "5"] if suite.quick else []))
    measured = f"{found['without']:.4g} / {found['beside']:.4g}, {found['rows']:.3g} rows"
    suite.row("(r) live dispatch, without deletion against beside it", measured, found["slower"], 1.2, at_least=False)
    measured = f"{found['p99_beside_ms']:.3g} / {found['p99_without_ms']:.3g}"
    suite.row(
        "(r) enqueue to provider call p99, beside deletion against without",
        measured,
        found["p99_slower"],
        1.2,
        at_least=False,
    )
    measured = f"{found['rows_per_second_alone']:.4g} rows/s alone"
    suite.row("(r) a pass with nothing to do, ms", measured, found["nothing_to_do_ms"], 500, at_least=False)


def kill(suite: Suite) -> None:
    systems = ("qtg", "qtg forked", "dbos", "pgqueuer") if suite.with_peers else ("qtg", "qtg forked")
    for seed in range(1, 2 if suite.quick else 4):
        for system in systems:
            name, forked = system.split()[0], ["--forked"] if "forked" in system else []
            python = sys.executable if name == "qtg" else str(peers_python(suite.home))
            suite.ours(f"{system} kill", "kill", name, *forked, "--seed", str(seed), "--python", python)
    for system in systems:
        name = f"{system} kill"
        restart, end = suite.spread(name, "restart_to_move_median_s"), suite.spread(name, "settled_after_last_kill_s")
        measured = f"lost {suite.median(name, 'lost'):g}; restart to move {restart} s; settled {end} s"
        worst = max(run["doubled"] + run["lost"] for run in suite.raw[name])
        if system.startswith("qtg"):
            suite.row(f"kill, {system}: steps moved twice or lost, of 600", measured, worst, 0, at_least=False)
        else:
            suite.rows.append((f"kill, {system}: the same", measured, f"{worst:g}", ""))


_RUN: dict[str, Callable[[Suite], None]] = dict(
    zip(
        CASES,
        (throughput, enqueue, observing, growth, processes, hand_over, event_log, callbacks, retention, kill),
        strict=True,
    )
)


def machine(url: str, python: Path | None) -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg(),
        "postgresql": settings_of(url),
        "peers": versions(python) if python is not None else {},
    }


def run_suite(
    home: Path, only: tuple[str, ...], *, quick: bool, url: str, with_peers: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run the named cases, or all; returns facts, raw runs and the table's rows."""
    chosen = only or CASES
    compared = with_peers and {"throughput", "enqueue", "kill"} & set(chosen)
    python = peers_python(home) if compared else None
    compile_sources()  # as the peers' packages were when they were installed
    with server(url) as server_url:
        facts = machine(server_url, python)
        say(json.dumps(facts))
        suite = Suite(server_url, home, quick, say, with_peers)
        for case in chosen:
            say(case)
            _RUN[case](suite)
    return {"machine": facts, "quick": quick, "runs": suite.raw, "rows": suite.rows}
