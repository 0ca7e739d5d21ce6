"""`qtg crash`."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("crash")
@click.option("--passes", type=click.IntRange(min=1), default=1, show_default=True, help="How often each cell is run.")
@click.option("--kills", type=click.IntRange(1, 50), default=2, show_default=True, help="Kills in each cell of kill.")
@click.option("--lane", "lanes", multiple=True, help="Only these lanes.")
@click.option("--boundary", "boundaries", multiple=True, help="Only these boundaries.")
@click.option("--action", "actions", multiple=True, help="Only these of kill, raise, hang.")
@click.option("--disturbance", "disturbances", multiple=True, help="Only these disturbances.")
@click.option("--seed", type=int, default=1, show_default=True, help="The first pass's seed; it replays a case.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Where to write the figures as JSON.")
def crash(
    passes: int,
    kills: int,
    lanes: tuple[str, ...],
    boundaries: tuple[str, ...],
    actions: tuple[str, ...],
    disturbances: tuple[str, ...],
    seed: int,
    json_file: Path | None,
) -> None:
    """Kill, fail and hang workers at every boundary of every lane, take the database away from them, and count the
    money. Exit 1 on any violation, and on any bar that is not met.
    """
    from qtg_dagster.host.paths import project_root, state_home

    sys.path.insert(0, str(project_root()))
    from tests.crash.command import chosen_cases, run_crash

    file = json_file or state_home() / "crash.json"
    cases = chosen_cases(lanes, boundaries, actions, disturbances)
    if not run_crash(cases, passes, kills, seed, file):
        sys.exit(1)
