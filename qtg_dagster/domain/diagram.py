"""The state machines as pictures, drawn from the one table of moves: `python -m qtg_dagster.domain.diagram`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from qtg_dagster.domain.capital_transfers import INITIAL_TRANSFER_STATE, TRANSFER_MOVES
from qtg_dagster.domain.ccip_sends import INITIAL_SEND_STATE, SEND_MOVES
from qtg_dagster.domain.states import (
    INITIAL_NODE_STATE,
    INITIAL_PROPOSAL_STATE,
    INITIAL_REQUEST_STATE,
    NODE_MOVES,
    PROPOSAL_MOVES,
    REQUEST_MOVES,
)

State = TypeVar("State", bound=StrEnum)


def state_diagram(moves: Mapping[State, Iterable[State]], initial: State) -> str:
    """A Mermaid state diagram of all moves; a state without any leads to the end."""
    lines = ["stateDiagram-v2", f"    [*] --> {initial}"]
    for old, targets in moves.items():
        lines += [f"    {old} --> {new}" for new in sorted(targets)] or [f"    {old} --> [*]"]
    return "\n".join(lines)


def states_page() -> str:
    """The whole of `docs/states.md`."""
    nodes = state_diagram(NODE_MOVES, INITIAL_NODE_STATE)
    requests = state_diagram(REQUEST_MOVES, INITIAL_REQUEST_STATE)
    proposals = state_diagram(PROPOSAL_MOVES, INITIAL_PROPOSAL_STATE)
    transfers = state_diagram(TRANSFER_MOVES, INITIAL_TRANSFER_STATE)
    sends = state_diagram(SEND_MOVES, INITIAL_SEND_STATE)
    return f"""# States

Drawn from `qtg_dagster/domain/states.py`, and `capital_transfers.py` and `ccip_sends.py` beside it; the database
refuses every other move, raw SQL included.

## A node

```mermaid
{nodes}
```

## A movement request

```mermaid
{requests}
```

## A template proposal

```mermaid
{proposals}
```

## A capital transfer

```mermaid
{transfers}
```

## A CCIP send

```mermaid
{sends}
```
"""


if __name__ == "__main__":
    sys.stdout.write(states_page())
