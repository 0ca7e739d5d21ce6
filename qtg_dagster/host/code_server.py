"""Dagster's code server, with runs forked from a process that has everything imported already.

As shipped it spawns: each run imports Dagster, the definitions, web3 and ccxt again, which is seconds of CPU a run.
Run as `python -m qtg_dagster.host.code_server` with the arguments of `dagster`, e.g. `api grpc ...`.
"""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

#: Imported once by the process that runs are forked from. It opens no connection and starts no thread.
PRELOADED = ("qtg_dagster.definitions", "qtg_dagster.host.preload")


def fork_runs_from_a_preloaded_process() -> None:
    """Make every code server of this process start its runs that way; an import that fails there costs only time."""
    from multiprocessing import forkserver

    from dagster._grpc.server import DagsterApiServer

    multiprocessing.set_forkserver_preload(list(PRELOADED))
    begin = DagsterApiServer.__init__

    def begin_forking(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self._mp_ctx = multiprocessing.get_context("forkserver")
        forkserver.ensure_running()

    DagsterApiServer.__init__ = begin_forking  # type: ignore[method-assign]


def main(arguments: list[str]) -> None:
    """Serve until ended."""
    from dagster._cli import cli

    fork_runs_from_a_preloaded_process()
    cli(arguments, prog_name="dagster", auto_envvar_prefix="DAGSTER_CLI")


if __name__ == "__main__":
    main(sys.argv[1:])
