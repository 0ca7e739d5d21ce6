"""What a worker that starts again has to import before it can move money."""

from __future__ import annotations

import subprocess
import sys

_IMPORTED = """
import sys, qtg_dagster.engine.drain, qtg_dagster.store.postgres
large = {"sqlalchemy", "alembic", "dagster", "web3", "ccxt", "yaml"}
print(*sorted({name.partition(".")[0] for name in sys.modules} & large))
"""


def test_the_money_path_imports_no_large_library() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
