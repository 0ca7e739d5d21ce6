"""Benches of all executors that ship, by key: what `qtg executor verify KEY` opens."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.conformance import Clause
from tests.executors.conformance.cex_bench import CEX_BENCHES, open_cex_bench
from tests.executors.conformance.evm_bench import EVM_BENCHES, open_evm_bench

SHIPPED = (*CEX_BENCHES, *EVM_BENCHES)
ACTING = ("exec.cex.withdrawal_action", "exec.evm.transfer")
_ONLY_LOOKS = frozenset(
    {
        Clause.SUBMIT_LOST_REPLY,
        Clause.SUBMIT_EXPIRED,
        Clause.SUBMIT_CHANGED,
        Clause.RECOVER_NO_EFFECT,
        Clause.RECOVER_ABSENCE,
    }
)
#: Clauses that there is nothing to judge by, in this process and through the service alike.
EXEMPT = {key: frozenset() if key in ACTING else _ONLY_LOOKS for key in SHIPPED}


def open_bench(key: str, health_seconds: float | None = None) -> AbstractAsyncContextManager[Any]:
    """`health_seconds` shortens how long health waits for who is silent; raises `InvalidInput` for an unknown key."""
    if key in CEX_BENCHES:
        return open_cex_bench(key, health_seconds)
    if key in EVM_BENCHES:
        return open_evm_bench(key, health_seconds)
    raise InvalidInput("KEY", f"no bench is known for {key!r}", f"Give --bench, or one of {', '.join(SHIPPED)}.")
