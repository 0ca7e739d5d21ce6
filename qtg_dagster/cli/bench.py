"""`qtg bench`."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import click


@click.command("bench")
@click.option("--quick", is_flag=True, help="Small sizes: does it run, not how fast is it.")
@click.option("--only", multiple=True, metavar="NAME", help="Run only this case; may be given again.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write every run here.")
@click.option("--url", default="", help="PostgreSQL to use, as superuser; default: an embedded one, durable.")
@click.option("--peers/--no-peers", default=True, help="Measure other systems too; installs them at first, apart.")
def bench(quick: bool, only: tuple[str, ...], json_file: Path | None, url: str, peers: bool) -> None:
    """Measure throughput, latency, growth and hand-over beside other systems, and print the ratios."""
    from rich.console import Console
    from rich.table import Table

    from qtg_dagster.domain.errors import InvalidInput
    from qtg_dagster.host.paths import project_root, state_home

    sys.path.insert(0, str(project_root()))
    suite = import_module("benchmarks.suite")
    for name in only:
        if name not in suite.CASES:
            raise InvalidInput("--only", f"there is no case {name}", f"Name one of: {', '.join(suite.CASES)}.")
    found = suite.run_suite(state_home(), only, quick=quick, url=url, with_peers=peers, say=click.echo)
    table = Table("figure", "measured: median (range)", "value", "bar")
    for row in found["rows"]:
        table.add_row(*row)
    (Console() if sys.stdout.isatty() else Console(width=150)).print(table)
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=2) + "\n")
