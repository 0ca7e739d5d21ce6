"""The figures of a run: a table of boundaries x lanes x actions, what was disturbed, and what became of the money."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qtg_dagster.faults import FaultAction, FaultPoint
from tests.crash.boundaries import Cell, Lane, why_not
from tests.crash.disturbances import PROGRESS_SECONDS, Disturbance
from tests.crash.outcome import Outcome

#: From a worker's start to its first move of money, for 99 of 100.
RESTART_SECONDS = 1.0


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of all does not exceed; None without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def figures(outcomes: Sequence[Outcome], cases: Sequence[Cell | Disturbance]) -> dict[str, Any]:
    """Everything that is printed, as JSON holds it."""
    hits: dict[Cell | Disturbance, int] = defaultdict(int)
    for outcome in outcomes:
        hits[outcome.case] += outcome.hits
    restarts = [seconds for outcome in outcomes for seconds in outcome.restarts]
    cells = [case for case in cases if isinstance(case, Cell)]
    found: dict[str, Any] = {
        "cases": len(outcomes),
        "cells": len(cells),
        "cells_hit": sum(1 for cell in cells if hits[cell]),
        "kills": sum(outcome.kills for outcome in outcomes),
        "moved_once": sum(outcome.once for outcome in outcomes),
        "moved_twice": sum(outcome.twice for outcome in outcomes),
        "moved_never": sum(outcome.never for outcome in outcomes),
        "with_people": sum(outcome.with_people for outcome in outcomes),
        "called_off": sum(outcome.called_off for outcome in outcomes),
        "restart_to_first_move_p50": quantile(restarts, 0.5),
        "restart_to_first_move_p99": quantile(restarts, 0.99),
        "restarts_measured": len(restarts),
        "disturbances": {
            str(case): _disturbed(case, hits[case], outcomes) for case in cases if isinstance(case, Disturbance)
        },
        "slowest": {str(o.case): round(o.seconds, 1) for o in sorted(outcomes, key=lambda o: o.seconds)[-10:]},
        "violations": [
            {"case": str(outcome.case), "seed": outcome.seed, "what": what}
            for outcome in outcomes
            for what in outcome.violations
        ],
        "notes": [{"case": str(o.case), "seed": o.seed, "what": what} for o in outcomes for what in o.notes],
        "hits": {str(cell): hits[cell] for cell in cells},
        "not_applicable": {
            f"{lane}/{point}": reason for lane in Lane for point in FaultPoint if (reason := why_not(lane, point))
        },
    }
    found["misses"] = _misses(found)
    return found


def _disturbed(case: Disturbance, hits: int, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    progress = [seconds for outcome in outcomes if outcome.case is case for seconds in outcome.progress]
    return {"hits": hits, "progress_p50": quantile(progress, 0.5), "progress_max": quantile(progress, 1.0)}


def _misses(found: dict[str, Any]) -> list[str]:
    """Which of the programme's bars this run does not meet; none when all is well."""
    misses = []
    if found["violations"]:
        misses.append(f"{len(found['violations'])} violations")
    if found["moved_twice"] or found["moved_never"]:
        misses.append("money moved twice or never")
    unhit = [name for name, hits in found["hits"].items() if not hits]
    unhit += [name for name, disturbed in found["disturbances"].items() if not disturbed["hits"]]
    if unhit:
        misses.append(f"never hit: {', '.join(unhit)}")
    if (found["restart_to_first_move_p99"] or 0.0) > RESTART_SECONDS:
        misses.append(f"restart to first move takes over {RESTART_SECONDS:g} s")
    if any((disturbed["progress_max"] or 0.0) > PROGRESS_SECONDS for disturbed in found["disturbances"].values()):
        misses.append(f"no progress within {PROGRESS_SECONDS:g} s of the server's return")
    return misses


def table(found: dict[str, Any]) -> str:
    """Boundaries down, lanes across; each cell shows the hits of kill/raise/hang, a dot where it does not apply."""
    lanes = list(Lane)
    lines = ["boundary".ljust(26) + "".join(lane.rjust(17) for lane in lanes)]
    for point in FaultPoint:
        line = point.ljust(26)
        for lane in lanes:
            counts = [found["hits"].get(f"{lane}/{point}/{action}") for action in FaultAction]
            shown = "/".join("-" if count is None else str(count) for count in counts)
            line += ("." if why_not(lane, point) else shown).rjust(17)
        lines.append(line)
    return "\n".join(lines)


def summary(found: dict[str, Any]) -> str:
    """What a reader wants to know first."""
    p50, p99 = found["restart_to_first_move_p50"], found["restart_to_first_move_p99"]
    restart = f"p50 {p50:.2f} s, p99 {p99:.2f} s over {found['restarts_measured']}" if p50 is not None else "none"
    lines = [
        *(_line(name, disturbed) for name, disturbed in found["disturbances"].items()),
        f"cells hit {found['cells_hit']} of {found['cells']}; {found['cases']} cases, {found['kills']} kills",
        f"money moved once {found['moved_once']}, twice {found['moved_twice']}, never {found['moved_never']}",
        f"not moved: called off {found['called_off']}, left to a person {found['with_people']}",
        f"restart to first move: {restart} (bar: p99 {RESTART_SECONDS:g} s)",
        f"violations: {len(found['violations'])}",
        f"all bars met: {'no: ' + '; '.join(found['misses']) if found['misses'] else 'yes'}",
    ]
    return "\n".join(lines)


def _line(name: str, disturbed: dict[str, Any]) -> str:
    progress = ""
    if disturbed["progress_max"] is not None:
        progress = (
            f"; PostgreSQL's return to first progress: p50 {disturbed['progress_p50']:.2f} s, "
            f"max {disturbed['progress_max']:.2f} s (bar: {PROGRESS_SECONDS:g} s)"
        )
    return f"{name.ljust(26)}{disturbed['hits']} times{progress}"


def write(found: dict[str, Any], file: Path) -> None:
    """Keep the figures."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=2) + "\n")
