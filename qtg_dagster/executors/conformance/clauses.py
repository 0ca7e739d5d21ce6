"""The executor contract as a table: every clause, what it says, and what goes wrong without it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Clause(StrEnum):
    """The ids; the order is that of an action's life."""

    PREFLIGHT_NO_EFFECT = "preflight.no-effect"
    PREFLIGHT_NOT_NOW = "preflight.not-now"
    PREPARE_NO_EFFECT = "prepare.no-effect"
    PREPARE_REPEATABLE = "prepare.repeatable"
    PREPARE_HASH = "prepare.hash"
    SUBMIT_ONCE = "submit.once"
    SUBMIT_ANSWERS = "submit.answers"
    SUBMIT_LOST_REPLY = "submit.lost-reply"
    SUBMIT_EXPIRED = "submit.expired"
    SUBMIT_CHANGED = "submit.changed"
    OBSERVE_NO_EFFECT = "observe.no-effect"
    OBSERVE_SAME_ANSWER = "observe.same-answer"
    OBSERVE_MONOTONE = "observe.monotone"
    LOOK_ANSWERS = "look.answers"
    LOOK_ODD_STATUS = "look.odd-status"
    RECOVER_NO_EFFECT = "recover.no-effect"
    RECOVER_ABSENCE = "recover.absence"
    RECOVER_FINDS = "recover.finds"
    HEALTH_NO_CONTEXT = "health.no-context"
    HEALTH_IN_TIME = "health.in-time"
    HEALTH_TELLS_DOWN = "health.tells-down"
    ERRORS_TYPED = "errors.typed"
    EVIDENCE_GIVEN = "evidence.given"
    EVIDENCE_JSON = "evidence.json"
    EVIDENCE_NO_SECRETS = "evidence.no-secrets"
    SESSION_NONE = "session.none"


@dataclass(frozen=True, slots=True)
class Wording:
    """One line of what must hold, one of why."""

    statement: str
    why: str


_C = Clause
CLAUSES: dict[Clause, Wording] = {
    _C.PREFLIGHT_NO_EFFECT: Wording(
        "preflight changes nothing, and answers nothing, REJECTED or NOT_SENT",
        "it runs before the intent is written down: what it did, nobody would look for",
    ),
    _C.PREFLIGHT_NOT_NOW: Wording(
        "preflight says 'not now' when its dependency is away, never REJECTED",
        "REJECTED fails the node for good, for an outage that passes by itself",
    ),
    _C.PREPARE_NO_EFFECT: Wording(
        "prepare changes nothing at the provider",
        "it runs before the intent is written down, and again after every deferral",
    ),
    _C.PREPARE_REPEATABLE: Wording(
        "prepare gives the same action for the same work order, but for what is declared to vary",
        "what is signed, sent and looked for must be one action, whoever prepares it",
    ),
    _C.PREPARE_HASH: Wording(
        "the payload hash is the SHA-256 of the payload; nothing is signed yet, and all of it can be stored",
        "the hash ties what was prepared to what is signed and sent; what cannot be stored cannot be recovered",
    ),
    _C.SUBMIT_ONCE: Wording(
        "submit acts exactly once, also when its reply is lost and recover is asked",
        "a request repeated below submit pays twice",
    ),
    _C.SUBMIT_ANSWERS: Wording(
        "submit answers NOT_SENT, REJECTED, ACCEPTED, COMPLETED or UNKNOWN",
        "any other answer is read as UNKNOWN and costs a recovery",
    ),
    _C.SUBMIT_LOST_REPLY: Wording(
        "a request that left and got no reply is UNKNOWN, never FAILED, REJECTED or NOT_SENT",
        "money may have moved: NOT_SENT sends it again, FAILED invites somebody to",
    ),
    _C.SUBMIT_EXPIRED: Wording(
        "an action past its expiry is not sent",
        "time passes between the engine's check and the send; the terms are no longer those that were checked",
    ),
    _C.SUBMIT_CHANGED: Wording(
        "an action whose payload does not match its hash is not sent",
        "what was approved and signed is the payload behind the hash, and nothing else",
    ),
    _C.OBSERVE_NO_EFFECT: Wording(
        "observe changes nothing at the provider",
        "it is asked hundreds of times for one action, and by several processes",
    ),
    _C.OBSERVE_SAME_ANSWER: Wording(
        "observe answers the same for the same state of the provider",
        "a second look after a crash must not tell another story than the first",
    ),
    _C.OBSERVE_MONOTONE: Wording(
        "observe never goes back from COMPLETED or FAILED",
        "later nodes have started from COMPLETED, people have acted on FAILED",
    ),
    _C.LOOK_ANSWERS: Wording(
        "observe and recover answer ACCEPTED, OBSERVING, COMPLETED, FAILED or UNKNOWN",
        "any other answer changes nothing, and the node waits for ever",
    ),
    _C.LOOK_ODD_STATUS: Wording(
        "a provider status that nobody knows stays pending, neither FAILED nor COMPLETED",
        "providers add statuses without notice; a guess about money is a loss",
    ),
    _C.RECOVER_NO_EFFECT: Wording(
        "recover sends nothing new; the same signed bytes only where that is declared",
        "the lost request may still be on its way",
    ),
    _C.RECOVER_ABSENCE: Wording(
        "recover takes absence neither for FAILED, unless a negative proof is declared, nor for success",
        "not found now is not the same as never executed",
    ),
    _C.RECOVER_FINDS: Wording(
        "recover finds what was executed",
        "else every lost reply waits for a person",
    ),
    _C.HEALTH_NO_CONTEXT: Wording(
        "health takes no work order",
        "it is asked at start-up and on a schedule, when there is none",
    ),
    _C.HEALTH_IN_TIME: Wording(
        "health answers in time, also when its dependency is silent",
        "approval waits for it, and one silent dependency must not hide the others",
    ),
    _C.HEALTH_TELLS_DOWN: Wording(
        "health tells when its dependency is away, by its report unless raising is declared",
        "the approval gate reads the report: healthy lets a movement start that cannot run",
    ),
    _C.ERRORS_TYPED: Wording(
        "submit, observe and recover raise nothing but QtgError, and what they could not do carries an error code",
        "operators, retries and alerts go by codes; a library's exception says nothing about money",
    ),
    _C.EVIDENCE_GIVEN: Wording(
        "NOT_SENT, REJECTED, COMPLETED and FAILED come with evidence",
        "no state is final without it: the engine takes such an answer for none",
    ),
    _C.EVIDENCE_JSON: Wording(
        "evidence, refs and artifacts are JSON",
        "what cannot be written to the journal is lost with the process",
    ),
    _C.EVIDENCE_NO_SECRETS: Wording(
        "no answer, prepared action, health report or error holds a secret",
        "all of them are stored and shown to people",
    ),
    _C.SESSION_NONE: Wording(
        "submit and recover work without a session, unless the executor asks for one",
        "the dispatcher passes none to executors that do not use the database",
    ),
}
