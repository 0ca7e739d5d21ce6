"""The body of a callback, as receivers read it: `python -m qtg_dagster.callbacks.document` writes its JSON Schema.

The database writes bodies (`store.schema.outboxes`); this says what they hold, and tests hold the two together. A
receiver should let pass what it does not know: fields may come, none that is here goes or changes its meaning.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from qtg_dagster.domain.journal import CallbackEvent
from qtg_dagster.domain.states import NodeState, RequestState

FILE = Path(__file__).parents[2] / "docs" / "schemas" / "callbacks" / "callback.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class CallbackPayload(BaseModel):
    """What happened. Which fields there are depends on the event's type; `request_id` is in all of them."""

    model_config = ConfigDict(extra="allow")

    request_id: UUID
    request_state: RequestState | None = Field(
        default=None, description="request_state_changed: where the movement stands now"
    )
    node_key: str | None = Field(default=None, description="the node that it came of, when it came of one")
    frontier: list[str] | None = Field(default=None, description="frontier_advanced: the nodes that became READY")
    node_state: NodeState | None = Field(default=None, description="request_attention: where that node stands")
    error_code: str | None = None
    error_message: str | None = None
    evidence: dict[str, Any] | None = Field(
        default=None, description="request_attention: what is known of it, without secrets"
    )
    allowed_actions: list[str] | None = Field(
        default=None, description="request_attention: what may be done now, as `action` or `action node_key`"
    )


class Callback(BaseModel):
    """One event of one movement; byte for byte the same at every attempt, redrive and resend."""

    model_config = ConfigDict(extra="allow")

    event_id: UUID = Field(description="also in the header webhook-id: act once on each")
    event_type: CallbackEvent
    network_class: str = Field(description="sandbox, or what the installation calls its networks")
    request_id: UUID = Field(description="the movement")
    sequence: int = Field(ge=1, description="1, 2, 3, ... within the movement, in the order in which it happened")
    occurred_at: datetime = Field(description="UTC: when the transaction began that the event is part of")
    payload: CallbackPayload


def schema_text() -> str:
    """The JSON Schema of a body."""
    return json.dumps({"$schema": _DIALECT, **Callback.model_json_schema()}, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(schema_text())
