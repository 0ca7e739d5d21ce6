"""Every clause can be broken, by an executor that keeps all others; a right one keeps them all."""

# ruff: noqa: ARG002 - the contract names what some executors do not read
from __future__ import annotations

import pytest

from qtg_dagster.domain.contract import ExecutionContext
from qtg_dagster.executors.conformance import CLAUSES, Clause, Declared, Knob, Verdict, verify_executor
from qtg_dagster.executors.conformance.checks import CHECKS
from tests.executors.conformance import wrong_acting, wrong_looking, wrong_telling
from tests.executors.conformance.memory import LIMITS, MemoryBench, RightExecutor
from tests.executors.conformance.wrong import WRONG

_MODULES = (wrong_acting, wrong_looking, wrong_telling)


def test_every_clause_is_worded_checked_and_broken_by_somebody() -> None:
    assert set(CLAUSES) == set(CHECKS) == set(Clause) == set(WRONG.values())


def test_every_wrong_executor_is_tried() -> None:
    written = [each for module in _MODULES for each in vars(module).values()]
    found = {each for each in written if isinstance(each, type) and issubclass(each, RightExecutor)}
    assert found - {RightExecutor} == set(WRONG)


async def test_the_right_executor_keeps_every_clause() -> None:
    report = await verify_executor("right", MemoryBench(), limits=LIMITS)
    assert [finding for finding in report.findings if finding.verdict is not Verdict.PASSED] == []
    assert len(report.findings) == len(Clause)
    assert report.holds()


@pytest.mark.parametrize(("executor", "clause"), WRONG.items(), ids=lambda each: getattr(each, "__name__", None))
async def test_a_wrong_executor_breaks_its_clause_and_no_other(executor: type[RightExecutor], clause: Clause) -> None:
    report = await verify_executor("wrong", MemoryBench(executor), limits=LIMITS)
    not_passed = {finding.clause: finding for finding in report.findings if finding.verdict is not Verdict.PASSED}
    assert set(not_passed) == {clause}, not_passed
    assert not_passed[clause].verdict is Verdict.BROKEN
    assert not report.holds(allow_unjudged=True)


@pytest.mark.parametrize("knob", [knob for knob in Knob if knob is not Knob.FAIL])
async def test_what_needs_a_missing_knob_is_not_judged_and_counts_against_it(knob: Knob) -> None:
    bench = MemoryBench()
    bench.knobs -= {knob}
    report = await verify_executor("right", bench, limits=LIMITS)
    unjudged = report.having(Verdict.NOT_JUDGED)
    assert unjudged
    assert all(str(knob) in finding.seen for finding in unjudged)
    assert not report.having(Verdict.BROKEN)
    assert not report.holds()
    assert report.holds(allow_unjudged=True)


async def test_without_canaries_secrecy_is_not_judged() -> None:
    bench = MemoryBench()
    bench.canaries = ()
    report = await verify_executor("right", bench, limits=LIMITS, clauses=[Clause.EVIDENCE_NO_SECRETS])
    assert [finding.verdict for finding in report.findings] == [Verdict.NOT_JUDGED]
    assert not report.holds(allow_unjudged=True), "nothing was judged at all"


@pytest.mark.parametrize(
    ("executor", "declared", "clause"),
    [
        (wrong_looking.SendsWhatIsAbsent, Declared(resends_signed_bytes=True), Clause.RECOVER_NO_EFFECT),
        (wrong_looking.AbsentIsFailed, Declared(negative_proof=True), Clause.RECOVER_ABSENCE),
        (wrong_looking.HandsOver, Declared(hands_over=True), Clause.RECOVER_FINDS),
        (wrong_looking.OddIsDone, Declared(done_when_on_record=True), Clause.LOOK_ODD_STATUS),
        (wrong_telling.HealthRaises, Declared(health_raises=True), Clause.HEALTH_TELLS_DOWN),
        (
            wrong_acting.PreparesAnew,
            Declared(varies=frozenset({"expires_at", "payload.id"})),
            Clause.PREPARE_REPEATABLE,
        ),
    ],
)
async def test_what_is_declared_is_no_breach(executor: type[RightExecutor], declared: Declared, clause: Clause) -> None:
    bench = MemoryBench(executor)
    bench.declared = declared
    report = await verify_executor("declared", bench, limits=LIMITS, clauses=[clause])
    assert [finding.verdict for finding in report.findings] == [Verdict.PASSED], report


@pytest.mark.parametrize(
    ("executor", "declared", "clause"),
    [
        (wrong_looking.AbsentIsDone, Declared(negative_proof=True), Clause.RECOVER_ABSENCE),
        (wrong_looking.NeverFinds, Declared(hands_over=True), Clause.RECOVER_FINDS),
        (wrong_looking.FindsFailure, Declared(hands_over=True), Clause.RECOVER_FINDS),
        (wrong_looking.OddIsFailed, Declared(done_when_on_record=True), Clause.LOOK_ODD_STATUS),
        (wrong_telling.AlwaysHealthy, Declared(health_raises=True), Clause.HEALTH_TELLS_DOWN),
        (RightExecutor, Declared(acts=False), Clause.SUBMIT_ONCE),
        (RightExecutor, Declared(), Clause.PREPARE_REPEATABLE),
    ],
)
async def test_a_declaration_covers_no_more_than_it_says(
    executor: type[RightExecutor], declared: Declared, clause: Clause
) -> None:
    bench = MemoryBench(executor)
    bench.declared = declared
    report = await verify_executor("declared", bench, limits=LIMITS, clauses=[clause])
    assert [finding.verdict for finding in report.findings] == [Verdict.BROKEN], report


async def test_a_payload_that_is_no_object_cannot_vary_by_its_parts() -> None:
    class Plain(RightExecutor):
        def payload(self, context: ExecutionContext) -> str:
            return "12.5 to a friend"

    bench = MemoryBench(Plain)
    bench.declared = Declared(varies=frozenset({"expires_at", "payload.id"}))
    report = await verify_executor("plain", bench, limits=LIMITS, clauses=[Clause.PREPARE_REPEATABLE])
    assert [finding.verdict for finding in report.findings] == [Verdict.BROKEN]


async def test_an_executor_that_refuses_the_benchs_order_is_not_taken_for_right() -> None:
    class Refuses(RightExecutor):
        async def preflight(self, context: object) -> object:
            return self.say(wrong_acting.S.REJECTED, "NO")

    report = await verify_executor("refuses", MemoryBench(Refuses), limits=LIMITS)  # type: ignore[arg-type]
    assert Clause.SUBMIT_ONCE in {finding.clause for finding in report.having(Verdict.BROKEN)}


async def test_an_executor_that_asks_for_a_session_is_given_one() -> None:
    class Keeps(RightExecutor):
        uses_session = True

        async def submit(self, context: object, prepared: object, session: object = None) -> object:
            assert session is not None
            return await super().submit(context, prepared, session)  # type: ignore[arg-type]

    report = await verify_executor("keeps", MemoryBench(Keeps), limits=LIMITS)  # type: ignore[arg-type]
    assert [finding.clause for finding in report.having(Verdict.EXEMPT)] == [Clause.SESSION_NONE]
    assert report.holds()
