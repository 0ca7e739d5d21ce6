"""What stands behind `qtg crash` and `qtg soak`."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.faults import FaultAction, FaultPoint
from qtg_dagster.host.bytecode import compile_sources
from tests.crash.boundaries import Cell, Lane, all_cells
from tests.crash.disturbances import Disturbance
from tests.crash.matrix import run_cases
from tests.crash.outcome import Outcome
from tests.crash.report import figures, summary, table, write
from tests.crash.soak import soak


def chosen_cases(
    lanes: tuple[str, ...], boundaries: tuple[str, ...], actions: tuple[str, ...], disturbances: tuple[str, ...]
) -> tuple[Cell | Disturbance, ...]:
    """The cases of a choice, everything without one; raises `InvalidInput` for unknown names and an empty choice."""
    for option, given, known in (
        ("--lane", lanes, list(Lane)),
        ("--boundary", boundaries, list(FaultPoint)),
        ("--action", actions, list(FaultAction)),
        ("--disturbance", disturbances, list(Disturbance)),
    ):
        for name in given:
            if name not in known:
                raise InvalidInput(option, f"{name!r} is not known", f"Use one of {', '.join(known)}.")
    of_cells = bool(lanes or boundaries or actions)
    chosen: list[Cell | Disturbance] = [
        each for each in Disturbance if each in disturbances or not (disturbances or of_cells)
    ]
    chosen += [
        cell
        for cell in all_cells()
        if (of_cells or not disturbances)
        and (not lanes or cell.lane in lanes)
        and (not boundaries or cell.point in boundaries)
        and (not actions or cell.action in actions)
    ]
    if not chosen:
        raise InvalidInput("--boundary", "does not concern the lanes that were chosen", "Choose another.")
    return tuple(chosen)


def run_crash(cases: tuple[Cell | Disturbance, ...], passes: int, kills: int, seed: int, file: Path) -> bool:
    """Run the cases and print; True when nothing is wrong, everything was hit and every bar is met.

    A run that is stopped early, or that breaks, prints what it has.
    """
    all_cases = passes * len(cases)
    outcomes: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        outcomes.append(outcome)
        for what in outcome.notes if outcome.violations else ():
            click.echo(f"  note: {what}")
        for what in outcome.violations:
            click.echo(f"VIOLATION {outcome.case} seed {outcome.seed}: {what}")
            click.echo(f"  replay: ./qtg crash {_choice(outcome.case)} --seed {outcome.seed} --kills {kills}")
        if len(outcomes) % 20 == 0 or len(outcomes) == all_cases:
            click.echo(f"{len(outcomes)} of {all_cases} cases")

    compile_sources()
    _clean_up_when_terminated()
    try:
        asyncio.run(run_cases(cases, passes=passes, seed=seed, kills=kills, tell=tell))
    except KeyboardInterrupt:
        click.echo(f"stopped after {len(outcomes)} of {all_cases} cases")
    finally:
        found = figures(outcomes, cases)
        write(found, file)
        click.echo(table(found))
        click.echo(summary(found))
        click.echo(f"figures: {file}")
    return not found["misses"]


def _choice(case: Cell | Disturbance) -> str:
    if isinstance(case, Cell):
        return f"--lane {case.lane} --boundary {case.point} --action {case.action}"
    return f"--disturbance {case}"


def run_soak(minutes: float, seed: int, sandbox: bool, file: Path) -> bool:
    """Soak and print; True when nothing is wrong."""
    compile_sources()
    _clean_up_when_terminated()
    found = asyncio.run(soak(minutes * 60, seed, with_world=sandbox, tell=click.echo))
    write(found, file)
    for name, value in found.items():
        click.echo(f"{name}: {value}")
    return not found["violations"]


def _clean_up_when_terminated() -> None:
    """A SIGTERM ends the run as Ctrl-C does: servers that were started are stopped, their folders go.

    It goes by way of SIGINT, which asyncio hears: that ends the run alone, and not what its cleaning up needs.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
