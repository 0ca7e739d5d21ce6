"""`qtg test`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

#: Most tests wait for a server or a process. Neighbours stay together, since they share what is started for them.
_WHOLE_SUITE = ("-n", "2", "--dist", "worksteal")


@click.command("test", context_settings={"ignore_unknown_options": True})
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def test(pytest_arguments: tuple[str, ...]) -> None:
    """Run the checkers and then pytest, on all tests or with the given arguments; exit 1 when any of them failed."""
    from qtg_dagster.host.bytecode import compile_sources
    from qtg_dagster.host.paths import project_root

    tools = Path(sys.executable).parent
    checks = (
        (tools / "ruff", "check"),
        (tools / "ruff", "format", "--check"),
        (tools / "mypy",),
        (tools / "lint-imports",),
    )
    failed: list[str] = []
    compile_sources()
    for check in (*checks, (sys.executable, "-m", "pytest", *(pytest_arguments or _WHOLE_SUITE))):
        name = " ".join([Path(check[0]).name, *map(str, check[1:])])
        if "pytest" in check:
            # pytest speaks last: its closing line is the last one printed.
            click.echo(f"checkers failed: {', '.join(failed)}" if failed else "checkers passed")
        else:
            click.echo(f"== {name}")
        if subprocess.run(list(map(str, check)), cwd=project_root(), check=False).returncode != 0:
            failed.append(name)
    raise SystemExit(1 if failed else 0)
