"""Every executor that ships keeps the contract through its service too, on whichever side of it the trouble is."""

from __future__ import annotations

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import InvalidInput, RemoteFault
from qtg_dagster.executors.conformance import Clause, Limits, Report, Verdict, verify_executor
from qtg_dagster.executors.conformance.case import Case
from tests.executors.conformance.served import open_served
from tests.executors.conformance.shipped import ACTING, EXEMPT, SHIPPED
from tests.executors.conformance.spoilt import LostIsNotSent, NeverFinds, SubmitsTwice, UnknownIsFailed, Wrapped

_C = Clause
_QUICK = Limits(looks=6, between_looks_seconds=0.001)
#: Judged by losing, cutting off or silencing what goes on the way; the wire tells nothing new about the others.
_ON_THE_WAY = (
    *(_C.PREFLIGHT_NOT_NOW, _C.SUBMIT_ONCE, _C.SUBMIT_ANSWERS, _C.SUBMIT_LOST_REPLY),
    *(_C.RECOVER_NO_EFFECT, _C.RECOVER_ABSENCE, _C.RECOVER_FINDS),
    *(_C.HEALTH_IN_TIME, _C.HEALTH_TELLS_DOWN, _C.ERRORS_TYPED),
)
#: What QTG's side says by itself of a fault on the wire is the same for every key: walked past for one that acts.
_SAID_OF_FAULTS = (_C.EVIDENCE_GIVEN, _C.EVIDENCE_JSON, _C.EVIDENCE_NO_SECRETS)

_WORDS_OF_THE_WIRE = {
    _C.PREFLIGHT_NOT_NOW: "RemoteFault: NEVER_SENT",
    _C.SUBMIT_ANSWERS: "NOT_SENT REMOTE_NEVER_SENT",
    _C.SUBMIT_LOST_REPLY: "UNKNOWN REMOTE_LOST",
    _C.HEALTH_IN_TIME: "LATE",
}


@pytest.mark.parametrize("key", SHIPPED)
async def test_a_shipped_executor_keeps_the_contract_through_its_service(key: str) -> None:
    async with open_served(key) as served:
        behind = await verify_executor(key, served.behind)
        on_the_wire = (*_ON_THE_WAY, *(_SAID_OF_FAULTS if key == ACTING[0] else ()))
        before = await verify_executor(key, served.before, clauses=on_the_wire)
    for report in (behind, before):
        assert [*report.having(Verdict.BROKEN), *report.having(Verdict.NOT_JUDGED)] == []
        judged = {finding.clause for finding in report.findings}
        assert {finding.clause for finding in report.having(Verdict.EXEMPT)} == EXEMPT[key] & judged
    assert "LATE" not in seen(behind, _C.HEALTH_IN_TIME), "the service tells of its provider's silence itself"
    for clause, word in _WORDS_OF_THE_WIRE.items():
        assert word in seen(before, clause) or clause in EXEMPT[key], "the trouble was before the service"


def seen(report: Report, clause: Clause) -> str:
    (found,) = [finding.seen for finding in report.findings if finding.clause is clause]
    return found


@pytest.mark.parametrize(
    ("key", "wrap", "clause"),
    [
        ("exec.cex.withdrawal_action", SubmitsTwice, Clause.SUBMIT_ONCE),
        ("exec.cex.withdrawal_action", LostIsNotSent, Clause.SUBMIT_LOST_REPLY),
        ("exec.cex.withdrawal_action", UnknownIsFailed, Clause.RECOVER_ABSENCE),
        ("exec.cex.withdrawal_action", NeverFinds, Clause.RECOVER_FINDS),
        ("exec.evm.transfer", LostIsNotSent, Clause.SUBMIT_LOST_REPLY),
    ],
)
async def test_a_spoilt_executor_is_found_through_its_service(key: str, wrap: type[Wrapped], clause: Clause) -> None:
    async with open_served(key, wrap) as served:
        report = await verify_executor(key, served.behind, limits=_QUICK, clauses=[clause])
    assert [finding.clause for finding in report.having(Verdict.BROKEN)] == [clause]


@pytest.mark.parametrize("key", ACTING)
async def test_once_recovery_has_asked_the_service_begins_no_submit(key: str) -> None:
    async with open_served(key) as served:
        bench = served.behind
        case = Case(bench, _QUICK, await bench.context())
        await case.ready()
        await case.recover()
        effects = await case.effects()
        late = await case.submit()
        assert (late.status, late.given().error_code) == (ResultStatus.UNKNOWN, "REMOTE_TOO_LATE")
        assert await case.effects() == effects
    assert effects == (1 if bench.declared.resends_signed_bytes else 0), "what recovery sends again is no new action"


async def test_what_a_look_raises_is_its_own_here_and_a_fault_of_the_service_there() -> None:
    async with open_served("exec.cex.withdrawal_action") as served:
        remote, local = served.behind.executor, served.behind.inner.executor
        context = (await served.behind.context()).model_copy(update={"node_config": {}})
        for look in ("observe", "recover"):
            with pytest.raises(InvalidInput, match=r"config\.venue"):
                await getattr(local, look)(context)
            with pytest.raises(RemoteFault, match=r"EXECUTOR_RAISED: .*InvalidInput: .*config\.venue"):
                await getattr(remote, look)(context)
        with pytest.raises(InvalidInput, match=r"config\.venue"):
            await remote.prepare(context)
