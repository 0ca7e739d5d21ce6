"""`qtg sandbox`: single parts of the sandbox by themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click


@click.group()
def sandbox() -> None:
    """Run single parts of the sandbox by themselves."""


@sandbox.command("exchange")
@click.option("--wire", "wires", multiple=True, help="one venue for each; all that there are when not given")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="serve this configuration instead of one that is made",
)
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="keys and ledger; QTG_HOME/exchange")
@click.option("--chain-url", help="node to pay out on and to watch for deposits; without one nothing is paid out")
@click.option("--usdc", help="contract of USDC on that chain")
@click.option("--address", "addresses", multiple=True, help="saved in address books as address1, address2, ...")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8790, show_default=True, help="0 = any free one")
def exchange(
    wires: tuple[str, ...],
    config_file: Path | None,
    folder: Path | None,
    chain_url: str | None,
    usdc: str | None,
    addresses: tuple[str, ...],
    host: str,
    port: int,
) -> None:
    """Serve stand-in exchanges until stopped: their own wires, real signatures, a ledger, faults on order."""
    from qtg_dagster.host.paths import make_private, state_home
    from qtg_dagster.sandbox.exchange.config import ExchangeConfig
    from qtg_dagster.sandbox.exchange.dialect import known_wires
    from qtg_dagster.sandbox.exchange.standalone import Surroundings, prepare, serve_alone

    home = make_private(folder or state_home() / "exchange")
    if config_file is not None:
        if wires or chain_url or usdc or addresses:
            raise click.UsageError("--config says it all: give no --wire, --chain-url, --usdc or --address with it")
        config = ExchangeConfig.load(config_file)
    else:
        config = prepare(home, wires or known_wires(), Surroundings(chain_url, usdc, addresses))
    asyncio.run(serve_alone(config, home, lambda line: click.echo(line), host=host, port=port))
