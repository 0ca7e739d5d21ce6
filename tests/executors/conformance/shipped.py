"""Benches of all executors that ship, by key: what `qtg executor verify KEY` opens."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from qtg_dagster.domain.errors import InvalidInput
from tests.executors.conformance.cex_bench import CEX_BENCHES, open_cex_bench
from tests.executors.conformance.evm_bench import EVM_BENCHES, open_evm_bench

SHIPPED = (*CEX_BENCHES, *EVM_BENCHES)


def open_bench(key: str) -> AbstractAsyncContextManager[Any]:
    """Raises `InvalidInput` for a key without a bench."""
    if key in CEX_BENCHES:
        return open_cex_bench(key)
    if key in EVM_BENCHES:
        return open_evm_bench(key)
    raise InvalidInput("KEY", f"no bench is known for {key!r}", f"Give --bench, or one of {', '.join(SHIPPED)}.")
