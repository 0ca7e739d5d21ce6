"""The lane's three executors keep the contract at every venue that the stand-in speaks, clause by clause."""

from __future__ import annotations

from typing import Any

import pytest

from qtg_dagster.executors.conformance import Verdict, verify_executor
from tests.lanes.cex.venues.bench import Bench, benches
from tests.lanes.cex.venues.contract_benches import BENCHES, ActionBench, opened


@pytest.mark.parametrize("kind", BENCHES, ids=lambda kind: kind.role)
@pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
async def test_the_contract_is_kept_at_every_venue(bench: Bench, kind: type[ActionBench], open_desk: Any) -> None:
    async with opened(kind, bench, open_desk) as made:
        report = await verify_executor(f"exec.cex.{kind.role}", made)
    assert [*report.having(Verdict.BROKEN), *report.having(Verdict.NOT_JUDGED)] == []
    assert report.holds()
    judged = {finding.verdict for finding in report.findings}
    assert judged == ({Verdict.PASSED} if made.declared.acts else {Verdict.PASSED, Verdict.EXEMPT})
