"""The command line. Every click command or group that a module of this package defines belongs to it."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import click

from qtg_dagster.domain.errors import QtgError


def build() -> click.Group:
    """The `qtg` command with all that stands in this package; a new command is a new module, nothing else.

    Modules import what is heavy inside their commands, so that this stays quick.
    """
    names = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    found = [each for name in names for each in vars(importlib.import_module(name)).values()]
    commands = [each for each in found if isinstance(each, click.Command)]
    inner = {id(each) for group in commands if isinstance(group, click.Group) for each in group.commands.values()}
    return click.Group(
        "qtg",
        commands=[each for each in commands if id(each) not in inner],
        help="Moves treasury funds between exchanges and chains, orchestrated by Dagster.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def main() -> None:
    """Run a command; an error that QTG raises on purpose is shown as one message, with exit code 2."""
    try:
        build()(prog_name="qtg")
    except QtgError as error:
        click.echo(f"qtg: {error}", err=True)
        sys.exit(2)
