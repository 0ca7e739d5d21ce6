"""Makes the sandbox's world ready, and ends: `python -m qtg_dagster.sandbox.prepare --home DIR --chain-url URL ...`.

A process of its own because keys and contracts need libraries that whoever starts the sandbox need not keep in memory.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from qtg_dagster.domain.errors import QtgError
from qtg_dagster.sandbox.world import prepare_world


def main() -> int:
    """Prepare; 2 when the chain does not answer or is not the sandbox's."""
    parser = argparse.ArgumentParser(prog="qtg_dagster.sandbox.prepare", description="Make the sandbox's world ready.")
    parser.add_argument("--home", type=Path, required=True, help="state folder")
    parser.add_argument("--chain-url", required=True)
    parser.add_argument("--exchange-port", type=int, required=True)
    arguments = parser.parse_args()
    try:
        prepare_world(arguments.home, arguments.chain_url, arguments.exchange_port)
    except QtgError as error:
        print(error, file=sys.stderr)  # noqa: T201 - command line
        return 2
    return 0


sys.exit(main())
