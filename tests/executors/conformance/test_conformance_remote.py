"""An executor at a URL is judged by the same clauses, with the kit's proxy losing what is on the way."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.conformance import Clause, Report, Verdict, verify_executor
from qtg_dagster.executors.conformance.bench_file import BenchFile
from qtg_dagster.executors.conformance.opening import RemoteSubject, remote_bench
from qtg_dagster.executors.remote.hosting import Listening
from qtg_dagster.secret import Secret
from tests.executors.conformance import wrong_acting, wrong_looking
from tests.executors.conformance.certificates import self_signed
from tests.executors.conformance.memory import LIMITS, SECRET, RightExecutor
from tests.executors.conformance.service import KEY, SHARED, Hosted, hosted

_SLOW = dataclasses.replace(LIMITS, health_seconds=3.0)


def subject(at: Hosted, **changes: Any) -> RemoteSubject:
    plain = RemoteSubject(
        at.url, KEY, Secret(SHARED), at.context_file, book_url=at.book_url, canaries=(Secret(SECRET),)
    )
    return dataclasses.replace(plain, **changes)


async def judge(at: Hosted, clauses: Any = Clause, **changes: Any) -> Report:
    async with remote_bench(subject(at, **changes)) as opened:
        return await verify_executor(at.url, opened, limits=_SLOW, clauses=clauses)


async def test_the_right_executor_keeps_every_clause_over_http(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        report = await judge(at)
    assert [finding for finding in report.findings if finding.verdict is not Verdict.PASSED] == []
    assert len(at.bench.provider.book) > len(Clause) / 2, "the effects were real ones"


@pytest.mark.parametrize(
    ("executor", "clause"),
    [
        (wrong_acting.ReservesByPaying, Clause.PREPARE_NO_EFFECT),
        (wrong_acting.PreparesAnew, Clause.PREPARE_REPEATABLE),
        (wrong_acting.SplitsInTwo, Clause.SUBMIT_ONCE),
        (wrong_acting.RecoversByRepeating, Clause.SUBMIT_ONCE),
        (wrong_looking.PaysForLooking, Clause.OBSERVE_NO_EFFECT),
        (wrong_looking.OddIsFailed, Clause.LOOK_ODD_STATUS),
        (wrong_looking.SendsWhatIsAbsent, Clause.RECOVER_NO_EFFECT),
        (wrong_looking.AbsentIsFailed, Clause.RECOVER_ABSENCE),
        (wrong_looking.NeverFinds, Clause.RECOVER_FINDS),
        (wrong_acting.SendsExpired, Clause.SUBMIT_EXPIRED),
    ],
)
async def test_a_wrong_executor_is_found_over_http(
    executor: type[RightExecutor], clause: Clause, tmp_path: Path
) -> None:
    async with hosted(tmp_path, executor) as at:
        report = await judge(at, [clause, Clause.PREPARE_HASH])
    assert {finding.clause: finding.verdict for finding in report.findings} == {
        clause: Verdict.BROKEN,
        Clause.PREPARE_HASH: Verdict.PASSED,
    }, report


async def test_a_service_behind_tls_is_judged_too(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    async with hosted(tmp_path, where=Listening(tls_cert=certificate, tls_key=key)) as at:
        assert at.url.startswith("https://")
        report = await judge(at, [Clause.SUBMIT_ONCE, Clause.SUBMIT_LOST_REPLY], ca_file=certificate)
        strangers = await judge(at, [Clause.SUBMIT_ONCE])
    assert report.holds(), report
    assert not strangers.holds(), "nobody answers for this certificate"


async def test_declarations_come_from_the_file(tmp_path: Path) -> None:
    async with hosted(tmp_path, wrong_looking.AbsentIsFailed, negative_proof=True) as at:
        report = await judge(at, [Clause.RECOVER_ABSENCE])
    assert report.holds()


async def test_without_a_book_effects_are_not_judged(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        report = await judge(at, [Clause.SUBMIT_ONCE, Clause.PREPARE_HASH], book_url=None)
    (unjudged,) = report.having(Verdict.NOT_JUDGED)
    assert unjudged.clause is Clause.SUBMIT_ONCE
    assert "--book" in unjudged.seen


async def test_what_is_no_book_is_said_to_be_none(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        with pytest.raises(InvalidInput, match="book"):
            await judge(at, book_url=at.url)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "context"),
        ('{"context": {"action_type": "a"}}', "node_config"),
        ('{"context": {"action_type": "a", "node_config": {}}, "declared": {"act": false}}', "declared.act"),
        ('{"context": {"action_type": "a", "node_config": {}}, "timeouts": {"submit": 0}}', "timeouts.submit"),
    ],
)
def test_a_file_that_is_no_work_order_is_refused_by_the_wrong_field(text: str, field: str, tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text(text)
    with pytest.raises(InvalidInput) as refused:
        BenchFile.read(tmp_path / "order.json")
    assert field in refused.value.field
