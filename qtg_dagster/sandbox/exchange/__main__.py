"""`python -m qtg_dagster.sandbox.exchange --config FILE --port N`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.server import serve


def main() -> int:
    """Serve the stand-in; 2 when the configuration does not allow it."""
    parser = argparse.ArgumentParser(prog="qtg_dagster.sandbox.exchange", description="A stand-in exchange.")
    parser.add_argument("--config", type=Path, required=True, help="JSON file, mode 0600")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 = any free port")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(serve(ExchangeConfig.load(arguments.config), host=arguments.host, port=arguments.port))
    except ConfigurationError as error:
        print(error, file=sys.stderr)  # noqa: T201 - command line
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


sys.exit(main())
