"""The figures of a run: a table of boundaries x lanes x actions, and what happened to the money."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qtg_dagster.faults import FaultAction, FaultPoint
from tests.crash.boundaries import Cell, Lane, why_not
from tests.crash.case import Outcome


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of all does not exceed; None without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def figures(outcomes: Sequence[Outcome], cells: Sequence[Cell]) -> dict[str, Any]:
    """Everything that is printed, as JSON holds it."""
    hits: dict[Cell, int] = defaultdict(int)
    for outcome in outcomes:
        hits[outcome.cell] += outcome.hits
    restarts = [seconds for outcome in outcomes for seconds in outcome.restarts]
    return {
        "cases": len(outcomes),
        "cells": len(cells),
        "cells_hit": sum(1 for cell in cells if hits[cell]),
        "kills": sum(outcome.kills for outcome in outcomes),
        "moved_once": sum(outcome.once for outcome in outcomes),
        "moved_twice": sum(outcome.twice for outcome in outcomes),
        "moved_never": sum(outcome.never for outcome in outcomes),
        "restart_to_first_move_p50": quantile(restarts, 0.5),
        "restart_to_first_move_p99": quantile(restarts, 0.99),
        "restarts_measured": len(restarts),
        "violations": [
            {"cell": str(outcome.cell), "seed": outcome.seed, "what": what}
            for outcome in outcomes
            for what in outcome.violations
        ],
        "notes": [{"cell": str(o.cell), "seed": o.seed, "what": what} for o in outcomes for what in o.notes],
        "hits": {str(cell): hits[cell] for cell in cells},
        "not_applicable": {
            f"{lane}/{point}": reason for lane in Lane for point in FaultPoint if (reason := why_not(lane, point))
        },
    }


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
    return (
        f"cells hit {found['cells_hit']} of {found['cells']}; {found['cases']} cases, {found['kills']} kills\n"
        f"money moved once {found['moved_once']}, twice {found['moved_twice']}, never {found['moved_never']}\n"
        f"restart to first move: {restart}\n"
        f"violations: {len(found['violations'])}"
    )


def write(found: dict[str, Any], file: Path) -> None:
    """Keep the figures."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=2) + "\n")
