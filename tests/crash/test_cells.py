"""A reduced matrix: every boundary once on the bank's lane, one kill on each other lane. `qtg crash` runs it all."""

from __future__ import annotations

import pytest

from qtg_dagster.faults import FaultAction, FaultPoint
from qtg_dagster.host.paths import project_root
from tests.crash.bench import Bench
from tests.crash.boundaries import ELSEWHERE, Cell, Lane, all_cells, why_not
from tests.crash.case import Case

pytestmark = pytest.mark.asyncio(loop_scope="session")

P, A = FaultPoint, FaultAction
_BANK = [cell for cell in all_cells() if cell.lane is Lane.BANK and cell.action is A.KILL]
_OTHERS = [
    Cell(Lane.DESK, P.APPROVE, A.KILL),
    Cell(Lane.DESK, P.EXPIRE, A.KILL),
    Cell(Lane.DESK, P.CYCLE_INSERT, A.KILL),
    *(Cell(Lane.DESK, P.AUDIT_PROMOTE, action) for action in A),
    *(Cell(Lane.DESK, point, action) for point in (P.CALLBACK_CLAIM, P.CALLBACK_SENT_UNSAVED) for action in A),
    Cell(Lane.EVM_TRANSFER, P.RESPONSE_UNCOMMITTED, A.KILL),
    Cell(Lane.EVM_TRANSFER, P.NONCE_RELEASE, A.KILL),
    Cell(Lane.EVM_OBSERVE, P.OBSERVE_RESPONSE, A.KILL),
    Cell(Lane.CEX_WITHDRAWAL, P.RESPONSE_UNCOMMITTED, A.KILL),
    Cell(Lane.CEX_DEPOSIT, P.OBSERVE_RESPONSE, A.KILL),
    Cell(Lane.BANK, P.RESPONSE_UNCOMMITTED, A.HANG),
    Cell(Lane.BANK, P.OBSERVE_RESPONSE, A.HANG),
    Cell(Lane.BANK, P.PREFLIGHT, A.RAISE),
    Cell(Lane.BANK, P.COMMIT_ACK_LOST, A.RAISE),
]


@pytest.mark.parametrize("cell", [*_BANK, *_OTHERS], ids=str)
async def test_money_moves_once_whatever_dies(bench: Bench, cell: Cell) -> None:
    outcome = await Case(bench, cell, seed=1, kills=1).run()
    assert outcome.violations == []
    assert outcome.hits > 0
    assert outcome.twice == 0


async def test_a_promoter_that_dies_behind_its_commit_has_promoted_once(bench: Bench) -> None:
    """With this seed the second passing kills: the answer of the commit is lost, and everything is in the chain."""
    case = Case(bench, Cell(Lane.DESK, P.AUDIT_PROMOTE, A.KILL), seed=2, kills=2)
    assert case.fault == "audit_promote:kill:2"
    outcome = await case.run()
    assert outcome.violations == []
    assert outcome.hits == 2


async def test_every_boundary_is_reached_on_some_lane_or_says_why_not() -> None:
    for point in FaultPoint:
        reasons = {why_not(lane, point) for lane in Lane}
        assert (None in reasons) != (point in ELSEWHERE), point
    assert all((project_root() / test).is_file() for test in ELSEWHERE.values())
