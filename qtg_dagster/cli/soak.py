"""`qtg soak`."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("soak")
@click.option("--minutes", type=click.FloatRange(min=0.1), default=5, show_default=True, help="How long.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides who is killed when.")
@click.option("--sandbox/--no-sandbox", default=True, show_default=True, help="Move on chain and exchange too.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Where to write the figures as JSON.")
def soak(minutes: float, seed: int, sandbox: bool, json_file: Path | None) -> None:
    """Three workers under steady work, killed every few seconds, their database restarted. Exit 1 on any violation."""
    from qtg_dagster.host.paths import project_root, state_home

    sys.path.insert(0, str(project_root()))
    from tests.crash.command import run_soak

    if not run_soak(minutes, seed, sandbox, json_file or state_home() / "soak.json"):
        sys.exit(1)
