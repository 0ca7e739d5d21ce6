"""Every executor that ships keeps the contract, but for what is known of it; and its bench finds one that does not."""

from __future__ import annotations

import pytest

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.conformance import Clause, Finding, Verdict, verify_executor
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes import cex, evm
from tests.executors.conformance.shipped import EXEMPT, SHIPPED, open_bench
from tests.executors.conformance.spoilt import LostIsNotSent, NeverFinds, SubmitsTwice, UnknownIsFailed, Wrapped
from tests.lanes.evm.conftest import MemoryLedger

#: How long health waits here for a dependency that says nothing: `tests/lanes` holds the lanes to their own limits.
_HEALTH_SECONDS = 1.0


async def judge(key: str, clause: Clause, wrap: type[Wrapped] | None = None) -> Finding:
    async with open_bench(key, _HEALTH_SECONDS) as bench:
        if wrap is not None:
            bench.executor = wrap(bench.executor)
        report = await verify_executor(key, bench, clauses=[clause])
    return report.findings[0]


def test_every_executor_of_the_lanes_has_a_bench() -> None:
    executors = ExecutorRegistry()
    cex.register(executors, Inventory())
    evm.register(executors, Inventory(), MemoryLedger())
    assert sorted(SHIPPED) == [key for key, _ in executors.items()]


def test_a_key_without_a_bench_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(InvalidInput, match=r"exec\.cex\.deposit_observe"):
        open_bench("exec.solana.transfer")


@pytest.mark.parametrize("key", SHIPPED)
async def test_a_shipped_executor_keeps_the_contract(key: str) -> None:
    async with open_bench(key, _HEALTH_SECONDS) as bench:
        report = await verify_executor(key, bench)
    assert [*report.having(Verdict.BROKEN), *report.having(Verdict.NOT_JUDGED)] == []
    assert report.holds()
    assert {finding.clause for finding in report.having(Verdict.EXEMPT)} == EXEMPT[key]


@pytest.mark.parametrize(
    ("key", "wrap", "clause"),
    [
        ("exec.cex.withdrawal_action", SubmitsTwice, Clause.SUBMIT_ONCE),
        ("exec.cex.withdrawal_action", LostIsNotSent, Clause.SUBMIT_LOST_REPLY),
        ("exec.cex.withdrawal_action", UnknownIsFailed, Clause.RECOVER_ABSENCE),
        ("exec.cex.withdrawal_action", NeverFinds, Clause.RECOVER_FINDS),
        ("exec.evm.transfer", LostIsNotSent, Clause.SUBMIT_LOST_REPLY),
        ("exec.evm.transfer", NeverFinds, Clause.RECOVER_FINDS),
    ],
)
async def test_a_spoilt_executor_is_found_on_the_bench_of_the_right_one(
    key: str, wrap: type[Wrapped], clause: Clause
) -> None:
    assert (await judge(key, clause)).verdict is Verdict.PASSED
    assert (await judge(key, clause, wrap)).verdict is Verdict.BROKEN
