"""Before anything is sent: preflight and prepare."""

from __future__ import annotations

import json
from typing import Any

from qtg_dagster.domain.canonical import json_problem
from qtg_dagster.domain.contract import PreparedAction, ResultStatus, payload_hash
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.conformance.bench import Knob
from qtg_dagster.executors.conformance.stage import Stage
from qtg_dagster.executors.conformance.verdicts import Broken

_PREFLIGHT = (ResultStatus.REJECTED, ResultStatus.NOT_SENT)
_MISSING = "(nothing)"


async def preflight_has_no_effect(stage: Stage) -> str:
    """Twice, before and after an action is prepared."""
    case = await stage.case()
    before = await case.all_effects()
    for _ in range(2):
        answer = await case.preflight()
        if answer.result is not None and answer.result.status not in _PREFLIGHT:
            raise Broken(f"preflight answered {answer}")
    if (after := await case.all_effects()) != before:
        raise Broken(f"two preflights left {after - before} effects in the provider's book")
    return f"asked twice: {answer}, no effect"


async def preflight_defers_an_outage(stage: Stage) -> str:
    """With nobody there, the order must be put off, not refused."""
    case = await stage.case()
    await case.turn(Knob.AWAY)
    answer = await case.preflight()
    refused = answer.result is not None and answer.result.status is not ResultStatus.NOT_SENT
    if refused or isinstance(answer.error, InvalidInput):
        raise Broken(f"with the dependency away preflight answered {answer}, which fails the node for good")
    return f"with the dependency away: {answer}"


async def prepare_has_no_effect(stage: Stage) -> str:
    """Twice, as a deferral does."""
    case = await stage.case()
    before = await case.all_effects()
    for _ in range(2):
        await case.prepare()
    if (after := await case.all_effects()) != before:
        raise Broken(f"preparing twice left {after - before} effects in the provider's book")
    return "prepared twice, no effect"


async def prepare_is_repeatable(stage: Stage) -> str:
    """All fields but the declared ones agree."""
    case = await stage.case()
    varies = stage.bench.declared.varies
    first, second = _flat(await case.prepare(), varies), _flat(await case.prepare(), varies)
    names = sorted(first.keys() | second.keys())
    differing = [name for name in names if first.get(name, _MISSING) != second.get(name, _MISSING)]
    undeclared = [name for name in differing if name not in varies]
    if undeclared:
        shown = ", ".join(f"{name}: {first.get(name, _MISSING)} then {second.get(name)}" for name in undeclared)
        raise Broken(f"prepared twice, and not declared to vary: {shown}")
    return f"prepared twice; differing, as declared: {', '.join(differing)}" if differing else "prepared twice, equal"


async def the_hash_is_of_the_payload(stage: Stage) -> str:
    """And the action is unsigned and storable."""
    case = await stage.case()
    action = await case.prepare()
    if action.payload_hash != payload_hash(action.payload):
        raise Broken(f"payload_hash is {action.payload_hash}, SHA-256 of the payload {payload_hash(action.payload)}")
    if action.signed_payload is not None:
        raise Broken("prepare gave a signed payload: signing is the signer's part")
    if problem := json_problem(action.model_dump(mode="python")):
        raise Broken(f"the prepared action cannot be stored: {problem}")
    return f"{action.payload_format} {action.payload_hash[:12]}…"


def _flat(action: PreparedAction, varies: frozenset[str]) -> dict[str, Any]:
    """The action's fields by name. A payload of which parts may vary is compared key by key, and not by its hash."""
    fields = action.model_dump(mode="json")
    refs = fields.pop("provider_refs")
    fields |= {f"provider_refs.{name}": value for name, value in refs.items()}
    if any(name.startswith("payload.") for name in varies):
        del fields["payload_hash"]
        fields |= {f"payload.{name}": value for name, value in _keys(fields.pop("payload")).items()}
    return fields


def _keys(payload: str) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Broken("parts of the payload are declared to vary, and it is no JSON object")
    return found
