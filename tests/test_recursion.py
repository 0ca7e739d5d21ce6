"""A hostile reply raises an error; it does not end the process."""

from __future__ import annotations

import subprocess
import sys

_KEPT = """
from qtg_dagster.recursion import keep_recursion_limit
keep_recursion_limit()
import json, eth_account, web3
try:
    json.loads("[" * 200_000)
except RecursionError:
    print("refused")
"""


def _says(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return done.stdout.strip()


def test_a_reply_that_nests_without_end_is_refused_with_the_signing_libraries_loaded() -> None:
    assert _says(_KEPT) == "refused"
