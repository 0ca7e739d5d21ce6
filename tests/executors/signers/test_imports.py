"""Every run of Dagster imports what builds signers, so it loads nothing heavy until a kind is asked for."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("boto3", "botocore", "coincurve", "cryptography", "eth_account", "eth_keys", "httpx", "rlp", "yaml")


def test_importing_what_builds_signers_loads_no_heavy_library() -> None:
    code = f"import sys, qtg_dagster.executors.signers.building; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
