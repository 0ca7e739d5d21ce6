"""How each clause is judged. A check raises `Broken`, `NotJudged` or `Exempt`, or says what it saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from qtg_dagster.executors.conformance.checks import answers, health, looking, preparing, recovering, submitting
from qtg_dagster.executors.conformance.clauses import Clause
from qtg_dagster.executors.conformance.stage import Stage

Check = Callable[[Stage], Awaitable[str]]
_C = Clause

CHECKS: dict[Clause, Check] = {
    _C.PREFLIGHT_NO_EFFECT: preparing.preflight_has_no_effect,
    _C.PREFLIGHT_NOT_NOW: preparing.preflight_defers_an_outage,
    _C.PREPARE_NO_EFFECT: preparing.prepare_has_no_effect,
    _C.PREPARE_REPEATABLE: preparing.prepare_is_repeatable,
    _C.PREPARE_HASH: preparing.the_hash_is_of_the_payload,
    _C.SUBMIT_ONCE: submitting.acts_once,
    _C.SUBMIT_ANSWERS: submitting.answers_are_listed,
    _C.SUBMIT_LOST_REPLY: submitting.lost_reply_is_unknown,
    _C.SUBMIT_EXPIRED: submitting.expired_is_not_sent,
    _C.SUBMIT_CHANGED: submitting.changed_is_not_sent,
    _C.OBSERVE_NO_EFFECT: looking.observe_has_no_effect,
    _C.OBSERVE_SAME_ANSWER: looking.same_state_same_answer,
    _C.OBSERVE_MONOTONE: looking.never_back_from_the_end,
    _C.LOOK_ANSWERS: looking.answers_are_listed,
    _C.LOOK_ODD_STATUS: looking.odd_status_stays_pending,
    _C.RECOVER_NO_EFFECT: recovering.sends_nothing_new,
    _C.RECOVER_ABSENCE: recovering.absence_proves_nothing,
    _C.RECOVER_FINDS: recovering.finds_what_was_executed,
    _C.HEALTH_NO_CONTEXT: health.takes_no_context,
    _C.HEALTH_IN_TIME: health.answers_in_time,
    _C.HEALTH_TELLS_DOWN: health.tells_when_away,
    _C.ERRORS_TYPED: answers.errors_are_typed,
    _C.EVIDENCE_GIVEN: answers.final_answers_have_evidence,
    _C.EVIDENCE_JSON: answers.all_is_json,
    _C.EVIDENCE_NO_SECRETS: answers.no_secret_is_shown,
    _C.SESSION_NONE: answers.no_session_is_needed,
}
