"""The work order and the declarations of an executor that is known by its URL alone."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from qtg_dagster.domain.contract import ExecutionContext
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.executors.conformance.bench import Declared
from qtg_dagster.executors.remote.executor import Timeouts
from qtg_dagster.executors.remote.terms import Terms

_PLAIN: dict[str, Any] = {
    "request_id": "00000000-0000-0000-0000-000000000000",
    "compiled_plan_hash": "0" * 64,
    "template_key": "conformance",
    "template_version": 1,
    "node_key": "verified",
    "node_kind": "action",
    "attempt_no": 1,
    "intent": {},
    "input_params": {},
    "resolved_bindings": {},
    "risk_controls": {},
    "provider_context": {},
}
_OWN = ("request_node_id", "idempotency_key")


class BenchFile(Frozen):
    """`context`: fields of the work order, of which `action_type` and `node_config` have no default; `terms` and
    `timeouts`: as the inventory would have them.
    """

    context: dict[str, Any]
    declared: Declared = Declared()
    terms: Terms = Terms()
    timeouts: Timeouts = Timeouts()

    @classmethod
    def read(cls, file: Path) -> BenchFile:
        """Read and try it; raises `InvalidInput` naming the first wrong field."""
        try:
            found = cls.model_validate(json.loads(file.read_text()))
            found.order()
        except (OSError, UnicodeError, json.JSONDecodeError) as error:
            raise InvalidInput("context", f"{file}: {error}", "Give a file of JSON.") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(f"context.{where}", str(first["msg"]), f"Correct it in {file}.") from error
        return found

    def order(self) -> ExecutionContext:
        """A work order under a key of its own."""
        given = {name: value for name, value in self.context.items() if name not in _OWN}
        own = {"request_node_id": str(uuid.uuid4()), "idempotency_key": uuid.uuid4().hex}
        return ExecutionContext.model_validate({**_PLAIN, **given, **own})
