"""The sandbox's processes for `qtg up`: the chain first, then the world on it, then the exchange."""

from __future__ import annotations

import sys
from pathlib import Path

from qtg_dagster.host.node_tools import anvil_binary
from qtg_dagster.host.ports import remembered_port
from qtg_dagster.host.readiness import answers_http, answers_json_rpc
from qtg_dagster.host.supervisor import ProcessSpec, Supervisor


def start_sandbox(supervisor: Supervisor, home: Path) -> None:
    """Start chain and exchange and prepare the world between them, its inventory in `home/inventory.yaml`."""
    from qtg_dagster.sandbox.world import exchange_config_file

    anvil_binary(home)
    chain_port = remembered_port(home, "sandbox-chain")
    exchange_port = remembered_port(home, "sandbox-exchange")
    chain_url = f"http://127.0.0.1:{chain_port}"
    supervisor.start(
        ProcessSpec(
            "sandbox-chain",
            _module("chain", "--home", str(home / "sandbox" / "chain"), "--port", str(chain_port)),
            answers_json_rpc(chain_url, "eth_chainId"),
            env={"QTG_HOME": str(home)},
            grace_seconds=20,  # it saves its state
        )
    )
    preparing = ("--chain-url", chain_url, "--exchange-port", str(exchange_port))
    supervisor.complete("sandbox-world", _module("prepare", "--home", str(home), *preparing), {"QTG_HOME": str(home)})
    supervisor.start(
        ProcessSpec(
            "sandbox-exchange",
            _module("exchange", "--config", str(exchange_config_file(home)), "--port", str(exchange_port)),
            answers_http(f"http://127.0.0.1:{exchange_port}/venue_a/api/v3/ping"),
        )
    )


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"qtg_dagster.sandbox.{name}", *arguments)
