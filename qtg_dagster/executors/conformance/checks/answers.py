"""What holds of every answer."""

from __future__ import annotations

from qtg_dagster.domain.canonical import json_problem
from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.executors.conformance import tour
from qtg_dagster.executors.conformance.case import Answer
from qtg_dagster.executors.conformance.stage import Stage
from qtg_dagster.executors.conformance.verdicts import Broken, Exempt, NotJudged
from qtg_dagster.executors.contract import UsesSession

S = ResultStatus
_ACTING = ("submit", "observe", "recover")
_COULD_NOT = (S.NOT_SENT, S.REJECTED, S.FAILED, S.UNKNOWN)


async def errors_are_typed(stage: Stage) -> str:
    """With nobody there, a changed action, and an empty config."""
    cases = [await tour.away(stage), await tour.changed(stage), await tour.without_config(stage)]
    answers = [answer for case in cases for answer in case.answers if answer.method in _ACTING]
    bare = [answer for answer in answers if answer.error is not None and not isinstance(answer.error, QtgError)]
    if bare:
        raise Broken("; ".join(f"{answer.method} raised {answer}" for answer in _distinct(bare)))
    silent = [answer for answer in tour.only_of(answers, *_COULD_NOT) if not answer.given().error_code]
    if silent:
        raise Broken("without an error code: " + "; ".join(f"{each.method}: {each}" for each in _distinct(silent)))
    return "; ".join(dict.fromkeys(f"{answer.method}: {_short(answer)}" for answer in answers))


async def final_answers_have_evidence(stage: Stage) -> str:
    """Everything the executor could be brought to say."""
    heard = await tour.walk(stage)
    final = tour.only_of(heard.answers, S.NOT_SENT, S.REJECTED, S.COMPLETED, S.FAILED)
    bare = [answer for answer in final if answer.method != "preflight" and not answer.given().evidence]
    if bare:
        raise Broken("without evidence: " + "; ".join(f"{each.method}: {each}" for each in _distinct(bare)))
    return f"{len(final)} final answers of {len(heard.answers)}"


async def all_is_json(stage: Stage) -> str:
    """Everything the executor could be brought to say."""
    heard = await tour.walk(stage)
    for answer in heard.answers:
        if answer.result is None:
            continue
        for name in ("evidence", "provider_refs", "artifacts"):
            if problem := json_problem(getattr(answer.result, name)):
                raise Broken(f"{answer.method}: {answer}: {name} is not JSON: {problem}")
    return f"{len(heard.answers)} answers"


async def no_secret_is_shown(stage: Stage) -> str:
    """Everything the executor could be brought to say, its name included."""
    canaries = stage.bench.canaries
    if not canaries:
        raise NotJudged("the bench names no canary secrets")
    heard = await tour.walk(stage)
    texts = [("its repr", repr(stage.bench.executor))]
    texts += [(answer.method, f"{answer} {answer.result!r} {answer.error!r}") for answer in heard.answers]
    texts += [("prepare", repr(action)) for action in heard.actions]
    texts += [("health", f"{told} {told!r}") for told in heard.health]
    leaky = sorted({where for where, text in texts if any(canary in text for canary in canaries)})
    if leaky:
        raise Broken(f"a secret is shown by {', '.join(leaky)}")
    return f"{len(canaries)} canaries, {len(texts)} texts"


async def no_session_is_needed(stage: Stage) -> str:
    """By leaving the argument out, and by giving None."""
    executor = stage.bench.executor
    if isinstance(executor, UsesSession) and executor.uses_session:
        raise Exempt("it asks for a session")
    case = await stage.case()
    action = await case.ready()
    try:
        await executor.submit(case.context, action)
        await executor.recover(case.context)
        await executor.recover(case.context, None)
    except QtgError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        raise Broken(f"without a session: {type(error).__name__}: {error}") from error
    return "submit and recover work without one"


def _distinct(answers: list[Answer]) -> list[Answer]:
    return list({(answer.method, str(answer)): answer for answer in answers}.values())


def _short(answer: Answer) -> str:
    return type(answer.error).__name__ if answer.error is not None else str(answer)
