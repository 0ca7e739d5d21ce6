"""`qtg executor verify`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.executor import executor
from qtg_dagster.domain.errors import InvalidInput

if TYPE_CHECKING:
    from qtg_dagster.executors.conformance import Bench, Finding, Report

_READ = click.Path(exists=True, dir_okay=False, path_type=Path)
_WRITE = click.Path(dir_okay=False, path_type=Path)
#: Benches of the executors that ship, over stand-ins and a local chain; they live beside their tests.
_SHIPPED = "tests.executors.conformance.shipped:open_bench"


@executor.command()
@click.argument("subject", metavar="KEY|URL")
@click.option("--bench", "bench_name", metavar="MODULE:NAME", help="for a KEY: your own function from key to bench")
@click.option("--key", help="for a URL: the executor's key there")
@click.option("--secret-env", help="for a URL: variable with the shared secret")
@click.option("--context", "context_file", type=_READ, help="for a URL: JSON with the work order and declarations")
@click.option("--book", "book_url", help="for a URL: where the provider's effects are counted")
@click.option("--ca-file", type=_READ, help="for an https URL: PEM file of the authority to believe")
@click.option("--canary-env", "canary_names", multiple=True, help="variable with a secret that must never be shown")
@click.option("--clause", "clause_ids", multiple=True, metavar="ID", help="judge only these clauses")
@click.option("--junit", "junit_file", type=_WRITE, help="also write the findings as JUnit XML")
@click.option("--allow-unjudged", is_flag=True, help="pass although a clause could not be judged")
def verify(
    subject: str,
    bench_name: str | None,
    key: str | None,
    secret_env: str | None,
    context_file: Path | None,
    book_url: str | None,
    ca_file: Path | None,
    canary_names: tuple[str, ...],
    clause_ids: tuple[str, ...],
    junit_file: Path | None,
    allow_unjudged: bool,
) -> None:
    """Prove that an executor keeps the contract, or name the clauses it breaks; exit 1 then.

    The executor acts: let it work on a test provider. A KEY that ships with QTG is judged over stand-ins.
    """
    from rich.console import Console

    from qtg_dagster.executors.conformance.junit import write_junit
    from qtg_dagster.executors.conformance.report import print_report

    if "://" in subject:
        bench = _at_url(subject, key, secret_env, context_file, book_url, ca_file, canary_names)
    else:
        bench = _of_key(subject, bench_name or _SHIPPED)
    console = Console() if sys.stdout.isatty() else Console(width=150)
    with console.status(f"judging {subject}") as status:

        def tell(found: Finding) -> None:
            status.update(f"judging {subject}: {found.clause} {found.verdict}")

        report = asyncio.run(_judge(subject, bench, clause_ids, tell))
    print_report(report, console)
    if junit_file is not None:
        write_junit(report, junit_file, allow_unjudged=allow_unjudged)
    sys.exit(0 if report.holds(allow_unjudged=allow_unjudged) else 1)


async def _judge(
    subject: str,
    opening: AbstractAsyncContextManager[Bench],
    clause_ids: tuple[str, ...],
    tell: Callable[[Finding], None],
) -> Report:
    from qtg_dagster.executors.conformance import Clause, verify_executor

    unknown = set(clause_ids) - {clause.value for clause in Clause}
    if unknown:
        raise InvalidInput("--clause", f"{', '.join(sorted(unknown))}: no such clause", f"Take of {', '.join(Clause)}.")
    async with opening as bench:
        chosen = [Clause(each) for each in clause_ids] or list(Clause)
        return await verify_executor(subject, bench, clauses=chosen, tell=tell)


def _of_key(key: str, bench_name: str) -> AbstractAsyncContextManager[Bench]:
    from qtg_dagster.executors.conformance.opening import bench_factory
    from qtg_dagster.host.paths import project_root

    sys.path.insert(0, str(project_root()))
    return bench_factory(bench_name)(key)


def _at_url(
    url: str,
    key: str | None,
    secret_env: str | None,
    context_file: Path | None,
    book_url: str | None,
    ca_file: Path | None,
    canary_names: tuple[str, ...],
) -> AbstractAsyncContextManager[Bench]:
    from qtg_dagster.executors.conformance.opening import RemoteSubject, remote_bench
    from qtg_dagster.secret import SecretSource

    if key is None or secret_env is None or context_file is None:
        raise InvalidInput("verify URL", "the service alone is not enough", "Give --key, --secret-env and --context.")
    subject = RemoteSubject(
        url=url,
        key=key,
        secret=SecretSource(env=secret_env).read("--secret-env"),
        context_file=context_file,
        book_url=book_url,
        ca_file=ca_file,
        canaries=tuple(SecretSource(env=name).read("--canary-env") for name in canary_names),
    )
    return remote_bench(subject)
