"""What stands behind `qtg crash` and `qtg soak`."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.faults import FaultAction, FaultPoint
from tests.crash.boundaries import Cell, Lane, all_cells
from tests.crash.case import Outcome
from tests.crash.matrix import run_cells
from tests.crash.report import figures, summary, table, write
from tests.crash.soak import soak


def chosen_cells(lanes: tuple[str, ...], boundaries: tuple[str, ...], actions: tuple[str, ...]) -> tuple[Cell, ...]:
    """The applicable cells of a choice; raises `InvalidInput` for unknown names and an empty choice."""
    for option, given, known in (
        ("--lane", lanes, list(Lane)),
        ("--boundary", boundaries, list(FaultPoint)),
        ("--action", actions, list(FaultAction)),
    ):
        for name in given:
            if name not in known:
                raise InvalidInput(option, f"{name!r} is not known", f"Use one of {', '.join(known)}.")
    cells = tuple(
        cell
        for cell in all_cells()
        if (not lanes or cell.lane in lanes)
        and (not boundaries or cell.point in boundaries)
        and (not actions or cell.action in actions)
    )
    if not cells:
        raise InvalidInput("--boundary", "does not concern the lanes that were chosen", "Choose another.")
    return cells


def run_crash(
    passes: int,
    kills: int,
    lanes: tuple[str, ...],
    boundaries: tuple[str, ...],
    actions: tuple[str, ...],
    seed: int,
    file: Path,
) -> bool:
    """Run the cells and print; True when nothing is wrong and every cell was hit."""
    cells = chosen_cells(lanes, boundaries, actions)
    all_cases = passes * len(cells)
    ended = 0

    def tell(outcome: Outcome) -> None:
        nonlocal ended
        ended += 1
        for what in outcome.violations:
            cell = outcome.cell
            click.echo(f"VIOLATION {cell} seed {outcome.seed}: {what}")
            click.echo(
                f"  replay: ./qtg crash --lane {cell.lane} --boundary {cell.point} --action {cell.action} "
                f"--seed {outcome.seed} --kills {kills}"
            )
        if ended % 20 == 0 or ended == all_cases:
            click.echo(f"{ended} of {all_cases} cases")

    _clean_up_when_terminated()
    outcomes = asyncio.run(run_cells(cells, passes=passes, seed=seed, kills=kills, tell=tell))
    found = figures(outcomes, cells)
    write(found, file)
    click.echo(table(found))
    click.echo(summary(found))
    click.echo(f"figures: {file}")
    return not found["violations"] and found["cells_hit"] == found["cells"]


def run_soak(minutes: float, seed: int, sandbox: bool, file: Path) -> bool:
    """Soak and print; True when nothing is wrong."""
    _clean_up_when_terminated()
    found = asyncio.run(soak(minutes * 60, seed, with_world=sandbox, tell=click.echo))
    write(found, file)
    for name, value in found.items():
        click.echo(f"{name}: {value}")
    return not found["violations"]


def _clean_up_when_terminated() -> None:
    """A SIGTERM ends the run as Ctrl-C does: servers that were started are stopped, their folders go."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
