"""Which clause each of the wrong executors breaks, and no other."""

from __future__ import annotations

from qtg_dagster.executors.conformance import Clause
from tests.executors.conformance import wrong_acting as acting
from tests.executors.conformance import wrong_looking as looking
from tests.executors.conformance import wrong_telling as telling
from tests.executors.conformance.memory import RightExecutor

_C = Clause
WRONG: dict[type[RightExecutor], Clause] = {
    acting.ProbesWithMoney: _C.PREFLIGHT_NO_EFFECT,
    acting.PreflightCompletes: _C.PREFLIGHT_NO_EFFECT,
    acting.RefusesDuringOutage: _C.PREFLIGHT_NOT_NOW,
    acting.ReservesByPaying: _C.PREPARE_NO_EFFECT,
    acting.PreparesAnew: _C.PREPARE_REPEATABLE,
    acting.HashesSomethingElse: _C.PREPARE_HASH,
    acting.SignsItself: _C.PREPARE_HASH,
    acting.SendsAgain: _C.SUBMIT_ONCE,
    acting.RecoversByRepeating: _C.SUBMIT_ONCE,
    acting.SplitsInTwo: _C.SUBMIT_ONCE,
    acting.SubmitObserves: _C.SUBMIT_ANSWERS,
    acting.LostIsNotSent: _C.SUBMIT_LOST_REPLY,
    acting.LostRequestIsRejected: _C.SUBMIT_LOST_REPLY,
    acting.SendsExpired: _C.SUBMIT_EXPIRED,
    acting.SendsChanged: _C.SUBMIT_CHANGED,
    looking.PaysForLooking: _C.OBSERVE_NO_EFFECT,
    looking.ChangesItsMind: _C.OBSERVE_SAME_ANSWER,
    looking.GoesBack: _C.OBSERVE_MONOTONE,
    looking.GoesBackFromFailed: _C.OBSERVE_MONOTONE,
    looking.ObserveRejects: _C.LOOK_ANSWERS,
    looking.RecoverNotSent: _C.LOOK_ANSWERS,
    looking.OddIsFailed: _C.LOOK_ODD_STATUS,
    looking.OddIsDone: _C.LOOK_ODD_STATUS,
    looking.SendsWhatIsAbsent: _C.RECOVER_NO_EFFECT,
    looking.AbsentIsFailed: _C.RECOVER_ABSENCE,
    looking.AbsentIsDone: _C.RECOVER_ABSENCE,
    looking.AbsentIsAccepted: _C.RECOVER_ABSENCE,
    looking.NeverFinds: _C.RECOVER_FINDS,
    looking.HandsOver: _C.RECOVER_FINDS,
    looking.FindsFailure: _C.RECOVER_FINDS,
    telling.HealthOfAnOrder: _C.HEALTH_NO_CONTEXT,
    telling.HealthWaits: _C.HEALTH_IN_TIME,
    telling.AlwaysHealthy: _C.HEALTH_TELLS_DOWN,
    telling.HealthRaises: _C.HEALTH_TELLS_DOWN,
    telling.LetsLibraryErrorsOut: _C.ERRORS_TYPED,
    telling.SaysNoCode: _C.ERRORS_TYPED,
    telling.TrustsItsConfig: _C.ERRORS_TYPED,
    telling.GivesNoEvidence: _C.EVIDENCE_GIVEN,
    telling.NotSentWithoutEvidence: _C.EVIDENCE_GIVEN,
    telling.EvidenceWithDecimals: _C.EVIDENCE_JSON,
    telling.ShowsItsKey: _C.EVIDENCE_NO_SECRETS,
    telling.ErrorShowsItsKey: _C.EVIDENCE_NO_SECRETS,
    telling.WantsASession: _C.SESSION_NONE,
    telling.LocksTheSession: _C.SESSION_NONE,
}
